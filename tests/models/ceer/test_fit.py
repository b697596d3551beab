import json
import re
from collections import OrderedDict
from pathlib import Path

import polars as pl
import pytest

from models.ceer import fit as ceer_fit
from models.ceer.fit import FittedCeer, explain_refusal, measured_steps, predictable_scenarios
from models.ceer.operations import WORKS_ON, NetworkOperations
from networks import catalogue, extraction
from networks.operation_graph import GraphOperation, OperationGraph
from networks.own_model import OwnModel
from tests.made_run import all_reduce, worker_nodes
from tests.models.ceer import study
from tests.models.ceer.frames import MB, operation
from tests.models.ceer.frames import network as network_of
from tests.models.runs import scenario as with_server
from warehouse.records import BadInput, Scenario, TrainingWorkload


def model(tables: dict[str, pl.DataFrame] | None = None) -> FittedCeer:
    """Fit to the made-up study; networks are made up too."""
    fit = ceer_fit.fit("tensorflow", False, tables or study.tables())
    return FittedCeer(fit.parameters, study.network)


@pytest.mark.parametrize("node_type", list(study.SLOWNESS))
@pytest.mark.parametrize("workers", [1, 2])
def test_a_dnn_without_profile_is_forecast_from_its_graph(node_type: str, workers: int) -> None:
    scenario = study.scenario("g", node_type, workers)
    (row,) = model().predict([scenario]).to_dicts()
    assert row["scenario_id"] == scenario.scenario_id
    # Times are exactly linear in sizes, and S in parameters.
    assert row["value"] == pytest.approx(study.step_s("g", node_type, workers), rel=1e-6)
    assert row["low"] == pytest.approx(row["value"], rel=1e-3)
    assert row["high"] == pytest.approx(row["value"], rel=1e-3)


def test_windows_and_repeated_runs_count_with_their_mean() -> None:
    tables = study.tables(("b",))
    steps = measured_steps(tables)
    columns = ["dnn", "node_type", "devices", "link_mbps", "parameter_count", "step_s"]
    assert steps.sort("node_type", "devices").select(columns).rows() == [
        ("b", node, k, link, 4_000_000, pytest.approx(study.step_s("b", node, k)))
        for node in ("fast", "slow")
        for k, link in ((1, None), (2, study.LINK_MBPS))
    ]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (study.scenario("g", "other", 1), r"on other: .* found nothing; list such a scenario"),
        (study.scenario("g", "slow", 3), r"3 device\(s\) at 200 Mb/s of any DNN, found 1 device"),
        (study.scenario("g", "slow", 2, 100.0), r"2 device\(s\) at 100 Mb/s"),
        (with_server(), "not async_parameter_server"),
    ],
)
def test_what_was_not_measured_is_named_with_the_command(asked: Scenario, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        model().predict([asked])


def test_what_profiles_would_lack_is_known_before_they_are_made() -> None:
    measured = [study.scenario(dnn, "slow", workers) for dnn in "ab" for workers in (1, 2)]
    ceer_fit.check_measured(study.scenario("g", "slow", 2), measured)
    for scenario in (study.scenario("g", "fast", 2), study.scenario("g", "slow", 3)):
        with pytest.raises(BadInput, match="expected steps of"):
            ceer_fit.check_measured(scenario, measured)


def test_operations_that_no_profile_had_are_named() -> None:
    def unknown(load: TrainingWorkload) -> NetworkOperations:
        return network_of(operation("", "Erf", 0, inputs=((900 * MB,),)))

    fit = FittedCeer(model().parameters, unknown)
    (row,) = fit.predict([study.scenario("g", "slow", 2)]).to_dicts()
    assert row["value"] is None
    assert 0 < row["low"] < row["high"]
    assert re.fullmatch(r"no profiled DNN has Erf; .*`stepcast run`", row["unknown"])


def test_what_ceer_is_not_about_is_declined() -> None:
    assert explain_refusal(study.scenario("a", "slow", 4)) is None
    types = [worker_nodes(name) for name in study.SLOWNESS]
    mixed, torch = all_reduce(*types, framework="tensorflow"), all_reduce(*types)
    assert "fast and slow" in str(explain_refusal(mixed))
    assert "not of pytorch" in str(explain_refusal(torch))
    assert "not of tensorflow" in str(explain_refusal(study.scenario("a", "slow", 1), "pytorch"))
    groups = [worker_nodes("slow", batch_size=size) for size in (None, 4)]
    uneven = all_reduce(*groups, framework="tensorflow")
    assert "the same batch each" in str(explain_refusal(uneven))


def test_a_model_of_a_user_is_forecast_where_its_step_was_traced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(catalogue, "OWN_MODELS", OrderedDict())
    like = study.scenario("g", "slow", 2)
    load = like.workload.model_copy(update={"dnn": "own-1234abcd", "image_size": 0})
    own = like.model_copy(update={"workload": load})
    assert "its training step was not traced" in str(explain_refusal(own))
    with pytest.raises(BadInput, match="its training step was not traced"):
        model().predict([own])
    network = study.network(like.workload)
    operations = tuple(
        GraphOperation(str(place), **{name: row[name] for name in ("type", *WORKS_ON)})
        for place, row in enumerate(network.operations.to_dicts())
        for _ in range(int(row["count"]))
    )
    size, parameters = load.batch_size, network.parameter_count
    step = OperationGraph("own-1234abcd", size, 0, parameters, operations)
    steps: dict[int, OperationGraph | Path | str] = {size: step, 2 * size: "it fails"}
    extraction.register_own_model(
        OwnModel("own-1234abcd", "tensorflow", 0, parameters, None, steps)
    )
    assert explain_refusal(own) is None
    larger = load.model_copy(update={"batch_size": 2 * size})
    assert "it fails" in str(explain_refusal(own.model_copy(update={"workload": larger})))
    (row,) = FittedCeer(model().parameters).predict([own]).to_dicts()
    assert row["value"] == pytest.approx(study.step_s("g", "slow", 2), rel=1e-6)


def test_runs_of_a_users_model_are_no_part_of_a_fit() -> None:
    tables = study.tables()
    of_users = tables["scenario"].with_columns(
        pl.col("canonical").str.replace('"dnn":"a"', '"dnn":"own-1234abcd"', literal=True)
    )
    assert not of_users.equals(tables["scenario"])
    kept = {
        json.loads(text)["workload"]["dnn"] for text in predictable_scenarios(of_users)["canonical"]
    }
    assert kept and not any(dnn.startswith("own-") for dnn in kept)
