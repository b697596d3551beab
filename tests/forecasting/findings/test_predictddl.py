"""A round with reused models: workloads, forecasts by network and servers, and time before them."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from forecasting.findings import collection_time
from forecasting.findings.collection_time import COLUMNS, collection_times, workloads_of
from forecasting.findings.cross_validation import FAMILIES, RANDOM
from forecasting.findings.predictddl import (
    NEW_TYPE,
    OTHERS,
    SEEN,
    Reuse,
    RoundSteps,
    reuse,
    rows_of,
)
from forecasting.findings.study import SCHEMA
from models.ernest import ERNEST
from models.predictddl import as_published
from models.predictddl.fit import Parameters
from networks import extraction
from profilers.probe import RequestedScenarios
from profilers.probes import PROBES
from reports import predictddl
from reports import predictddl as section
from studies.planned_runs import expected_s, group_by_start
from studies.rounds import Round
from tests.forecasting.findings.made_up_round import LAYERS, RUN_S, graphs, judged, landed
from tests.pipelines.service.made_up import at_hand
from tests.reports.pages import Balanced, cells, headings
from warehouse.inputs import Refusal
from warehouse.ledger import FitRecord
from warehouse.records import Run, Scenario
from warehouse.warehouse import Warehouse

FACTORS = {"predictddl": 1.1, "predictddl_paper": 3.0, "ernest_pooled": 0.5}
GRIDS = {
    "polynomial": {},
    "linear": {},
    "svr": {"kernel": ("rbf",), "C": (1.0,), "gamma": (0.05,), "epsilon": (0.1,)},
    "mlp": {"neurons": (1,)},
}
CHOSEN = Parameters(
    seen="trees",
    unseen="none",
    left_out={"predictddl": 0.1, "log_linear": 0.25, "histogram": 0.5},
    answers="predictddl",
    scores={"unseen": 1.0, "seen": 1.0},
    far=0.1,
    coefficients=(1.0,),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Round, Path]:
    folder = tmp_path_factory.mktemp("reused") / "landing"
    with pytest.MonkeyPatch.context() as patch:
        return landed(folder, patch), folder


@pytest.fixture(scope="module")
def found(made: tuple[Round, Path]) -> Reuse:
    round_, folder = made
    warehouse = Warehouse(folder.parent)
    warehouse.load()
    fit = _fit(round_)
    warehouse.record_fit(fit)
    forecasts = judged(round_, FACTORS).with_columns(fit_id=pl.lit(fit.fit_id))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extraction, "_PRIMITIVES", at_hand(graphs()))
        # A few settings of each kind, which tests can wait for.
        patch.setattr(as_published, "GRIDS", GRIDS)
        result = reuse(round_, forecasts, folder, warehouse)
    assert result is not None
    return result


def _fit(round_: Round) -> FitRecord:
    """Return a record of a fit of predictddl to the train scenarios of a round."""
    return FitRecord(
        system="predictddl",
        model_version="3",
        parameters=CHOSEN.model_dump(mode="json"),
        run_ids=tuple(run.run_id for run in round_.runs if run.purpose == "profile"),
        row_filter="all",
        row_count=8,
        data_hash="abc",
        backend="loopback",
        host_id="host-1",
        code_version="v1",
        created_at=datetime(2031, 1, 1, tzinfo=UTC),
    )


def _own_runs(round_: Round, scenario: Scenario) -> list[Run]:
    """Return runs of Ernest's own for a scenario, of another study; each takes 25 s."""
    asks = ERNEST.rests_on(scenario)
    assert not isinstance(asks, Refusal)
    pattern = next(run for run in round_.runs if run.purpose == "profile")
    return [
        pattern.model_copy(
            update={
                "run_id": f"own-{ask.scenario.scenario_id}",
                "scenario_id": ask.scenario.scenario_id,
                "study": "another",
                "ended_at": pattern.started_at + timedelta(seconds=25),
            }
        )
        for ask in asks
    ]


def test_workloads_are_those_measured_and_how_they_are_known(found: Reuse) -> None:
    rows = {row[0]: row[1:] for row in found.workloads.iter_rows()}
    assert rows == {
        "resnet18": ("resnet", "network", 5, 1),
        "vgg11": ("vgg", "network", 4, 0),
        "squeezenet": ("squeezenet", "neither", 2, 2),
        "mobilenet": ("mobilenet", "neither", 2, 2),
    }


def test_the_ledger_is_taken_as_it_is(found: Reuse) -> None:
    overall = {(row["of"], row["split"]): row for row in found.judged.overall.to_dicts()}
    assert overall.keys() == {(of, s) for of in FACTORS for s in ("seen", "other networks")}
    for (system, split), row in overall.items():
        assert row["n"] == (1 if split == "seen" else 4)
        assert row["ratio"] == pytest.approx(FACTORS[system])
        assert row["error_percent"] == pytest.approx(100 * abs(FACTORS[system] - 1))
    assert (found.noise_floor, found.noise_n) == (None, 0)


def test_regressions_judge_each_run_by_fits_to_others(found: Reuse) -> None:
    tell = found.regressions
    assert tell is not None
    runs = sum(found.workloads["runs"])
    assert set(tell.of_two["dnn"]) == {"resnet18", "vgg11"}
    beside = tell.beside.overall["of"].unique(maintain_order=True).to_list()
    assert beside[0] == "PredictDDL as published"
    assert beside[2:] == ["PredictDDL, ours", "log-linear", "Ernest, pooled"]
    for contest in (tell.boxes, tell.features):
        assert contest.overall["of"].to_list()[-1] == "log-linear"
    for contest in (tell.boxes, tell.features, tell.beside, tell.kinds):
        assert set(contest.overall["split"]) == {RANDOM, FAMILIES}
        assert set(contest.overall["n"]) == {runs}
        assert set(contest.by_network["dnn"]) == LAYERS.keys()
    assert tell.amounts.overall["of"].to_list() == ["50/50", "67/33", "80/20"]
    assert tell.kinds.overall["of"].n_unique() == 4


def test_as_published_is_the_best_of_four_kinds_and_not_one(found: Reuse) -> None:
    """Where the polynomial is not chosen, its forecasts are another row."""
    tell = found.regressions
    assert tell is not None
    names = ("PredictDDL as published", "second-order polynomial of the embedding")
    for split in (RANDOM, FAMILIES):
        published_, polynomial = (
            tell.beside.by_network.filter(of=name, split=split) for name in names
        )
        assert published_["ratio"].to_list() != pytest.approx(polynomial["ratio"].to_list())


def test_a_type_without_steps_stands_apart(
    made: tuple[Round, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless no point is on a type with steps: then networks alone tell points apart."""
    round_, folder = made
    monkeypatch.setattr(extraction, "_PRIMITIVES", at_hand(graphs()))
    forecasts = judged(round_, {"predictddl": 1.1})
    data = RoundSteps(round_, folder)

    def elsewhere(scenario: Scenario) -> Scenario:
        nodes = tuple(group.model_copy(update={"node_type": "new"}) for group in scenario.nodes)
        return scenario.model_copy(update={"nodes": nodes})

    def counts() -> dict[str, int]:
        rows = rows_of(forecasts, data)
        return dict(rows.group_by("split").len().iter_rows())

    scenarios = data.scenarios
    assert counts() == {SEEN: 1, OTHERS: 4}
    some = {
        name: elsewhere(scenario) if scenario.strategy.workers == 2 else scenario
        for name, scenario in scenarios.items()
    }
    vars(data).update(scenarios=some)
    assert counts() == {SEEN: 1, OTHERS: 2, NEW_TYPE: 2}
    vars(data).update(scenarios={name: elsewhere(scenario) for name, scenario in scenarios.items()})
    assert counts() == {SEEN: 1, OTHERS: 4}


def test_runs_that_serve_several_workloads_count_once(made: tuple[Round, Path]) -> None:
    round_, _ = made
    forecasts = judged(round_, FACTORS)
    rows = collection_times(round_, workloads_of(round_, forecasts), forecasts, round_.runs)
    of = {name: frame for (name,), frame in rows.group_by("system")}
    train = 8 * RUN_S
    for name in FACTORS:
        assert of[name]["measuring_s"].to_list() == [train] * 3
        assert of[name]["n"].to_list() == [1, 3, 5]
        errors = [100 * abs(FACTORS[name] - 1)] * 3
        assert of[name]["error_percent"].to_list() == pytest.approx(errors)
        assert not of[name]["expected"].any()
    # Ernest is in no list: its own runs are what a plan expects, more with each network.
    ernest = of["ernest"]["measuring_s"].to_list()
    assert 0 < ernest[0] < ernest[1] < ernest[2]
    assert of["ernest"]["expected"].all() and of["ernest"]["n"].to_list() == [0, 0, 0]


def test_what_ernest_forecast_in_another_study_is_the_workload_of_all(
    made: tuple[Round, Path],
) -> None:
    """It was judged on one scenario of each other network, and measured the runs of the first."""
    round_, _ = made
    forecasts = judged(round_, FACTORS)
    of_ernest = judged(round_, {"ernest": 1.3}).filter(
        pl.col("workers") == 3, pl.col("dnn") != "resnet18"
    )
    both = pl.concat([forecasts, of_ernest])
    workloads = workloads_of(round_, both)
    assert list(workloads) == ["squeezenet", "mobilenet"]
    first, second = (scenario for of in workloads.values() for _, some in of for scenario in some)
    runs = [*round_.runs, *_own_runs(round_, first)]
    rows = collection_times(round_, workloads, both, runs)
    reuse, ernest = (rows.filter(system=name) for name in ("predictddl", "ernest"))
    assert reuse["n"].to_list() == ernest["n"].to_list() == [1, 2]
    assert ernest["error_percent"].to_list() == pytest.approx([30, 30])
    assert ernest["expected"].to_list() == [False, True]
    measured_s = 25 * len(_own_runs(round_, first))
    probe = PROBES["torch_throughput"]
    asks = ERNEST.rests_on(second)
    assert not isinstance(asks, Refusal)
    planned = probe.needs(
        RequestedScenarios(own=tuple(ask.scenario for ask in asks)), probe.settings()
    )
    planned_s = sum(expected_s(start) for start in group_by_start(list(planned)))
    assert ernest["measuring_s"].to_list() == pytest.approx([measured_s, measured_s + planned_s])


def test_times_of_ernest_over_ours_are_those_by_hand() -> None:
    rows = [("predictddl", n, 80.0, False, n, 10.0) for n in (1, 2)]
    rows += [("ernest", n, 100.0 * n, False, n, 10.0) for n in (1, 2)]
    waited = pl.DataFrame(rows, schema=COLUMNS, orient="row")
    compared = collection_time.compare_with_ernest(waited, [4.0, 5.0])
    assert compared.schema == pl.Schema(collection_time.ERNEST_COLUMNS)
    assert compared.rows() == [
        (1, 100.0, 4.0, 80.0, 25.0, pytest.approx(100 / 84)),
        (2, 200.0, 5.0, 80.0, 40.0, pytest.approx(200 / 85)),
    ]
    assert collection_time.compare_with_ernest(waited, []).is_empty()
    planned = waited.with_columns(expected=pl.col("system") == "ernest")
    assert collection_time.compare_with_ernest(planned, [4.0, 5.0]).is_empty()


def test_regressors_are_those_of_the_fit_that_was_judged(found: Reuse) -> None:
    assert found.regressors.rows() == [(5, "trees", "none", "predictddl", 0.1, 0.25, 0.5)]
    text = section.reuse_section(found)
    assert "trained on it chose work and boosted trees, which see the embedding" in text
    assert "work alone, which does not see the embedding, and predictddl itself answers" in text
    assert "families left out of this fit: predictddl 0.100, log_linear 0.250" in text


def test_sections_say_what_was_found(found: Reuse) -> None:
    html = section.reuse_section(found) + predictddl.regressions_section(found)
    assert not Balanced(html).open
    titles = [title for title in headings(html) if not title.startswith(("In the ledger", "R"))]
    assert titles[:2] == [
        "What reuse answers, by the paper's questions",
        "Which networks were measured",
    ]
    assert {
        "Whether sizes of a network help: black box and gray box",
        "Whether more data helps",
        "Time before an answer",
    } <= set(titles)
    rows = cells(html)
    paper = ["predictddl_paper", "other networks", "the ledger, before it was measured", "4"]
    assert [*paper, "3.00", "200.0 %"] in rows
    texts = next(row for row in rows if row[0] == "predictddl" and row[1] == "80 s")
    assert texts == ["predictddl", "80 s", "80 s", "10.0 %", "5"]
    assert any(row[0] == "ernest *" and row[-2:] == ["—", "0"] for row in rows)


def test_without_a_reused_model_there_is_nothing(made: tuple[Round, Path]) -> None:
    round_, folder = made
    none = pl.DataFrame(schema=SCHEMA)
    warehouse = Warehouse(folder.parent)
    assert reuse(round_, none, folder, warehouse) is None
    assert reuse(round_, judged(round_, {"ernest_pooled": 1.0}), folder, warehouse) is None
