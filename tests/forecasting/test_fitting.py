"""Fits name what they saw; nothing is measured before it is predicted."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from assets.resources import WarehouseResource
from forecasting.round_forecasts import check_predicted, fit_round, predict_missing, predict_round
from models.async_sgd.systems import ASYNC_SGD, ONE_SERVER
from models.baselines import LIN, LINE_RATE, LINEAR
from models.system import FittedSystem, Tables
from profilers.steady.host import host_id
from studies.measurement import measure
from studies.messages import Progress
from studies.plan import prediction_name
from studies.rounds import Round
from studies.study import Study, read_study
from tests import synthetic
from tests.fleet.paper_watch import Told
from tests.synthetic import LOOPBACK, MIXED, STUDY, PaperProbes, profiled, write_study
from warehouse.landing import landed_runs
from warehouse.records import BadInput, Scenario
from warehouse.requirements import Refusal, Requirement
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse


@pytest.fixture
def warehouse(home: Path) -> Warehouse:
    """Return an empty warehouse."""
    return Warehouse(home)


def opened(study_file: Path, landing: Path) -> Round:
    runs = landed_runs(landing)
    return synthetic.opened(read_study(study_file), "loopback", host_id(), runs)


@pytest.fixture
def round_(study_file: Path, warehouse: Warehouse, probes: PaperProbes) -> Round:
    """Return a round whose profiles are in the warehouse."""
    landing = warehouse.landing
    study_round = opened(study_file, landing)
    study_round = profiled(study_round, landing)
    warehouse.load()
    return study_round


def ledger(warehouse: Warehouse) -> pl.DataFrame:
    return WarehouseResource(home=str(warehouse.home)).published_ledger()


def test_a_fit_names_the_runs_and_rows_it_saw(round_: Round, warehouse: Warehouse) -> None:
    probes_of = {run.run_id: run.probe for run in round_.runs}
    for system, probes in ((ASYNC_SGD, ["links", "tf_trace"]), (LINEAR, ["tf_trace"])):
        for fit in fit_round(system, round_, warehouse, Progress()).values():
            assert [probes_of[run_id] for run_id in fit.group.run_ids] == probes
            assert fit.row_count > len(probes)
    assert set(warehouse.query("fits")["host_id"]) == {host_id()}


def test_without_a_profile_there_is_no_fit(study_file: Path, warehouse: Warehouse) -> None:
    empty = opened(study_file, warehouse.landing)
    with pytest.raises(BadInput, match="round 1 of paper has no links and tf_trace run of it"):
        fit_round(ASYNC_SGD, empty, warehouse, Progress())


def test_predictions_are_made_once_and_need_no_fit_then(
    round_: Round, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = predict_missing(LINEAR, round_, warehouse, Progress())
    assert first.height == 4
    assert first["value"].to_list() == pytest.approx(
        [10.0 * workers for workers in _workers(first, round_)]
    )
    unfit = replace(LINEAR, fit=lambda tables: pytest.fail("fitted again"))
    finished: list[str] = []
    listener = Progress()
    monkeypatch.setattr(listener, "finished", finished.append)
    assert predict_missing(unfit, round_, warehouse, listener).equals(first)
    assert finished == [prediction_name("linear")]


def test_forecasts_that_saw_what_is_measured_again_are_made_again(
    round_: Round, warehouse: Warehouse, tmp_path: Path
) -> None:
    """Links of other flows are: line_rate saw them, linear did not."""
    before = {
        system: predict_missing(system, round_, warehouse, Progress())
        for system in (LINEAR, LINE_RATE)
    }
    text = STUDY.replace("flows: [1, 2]", "flows: [1, 2, 3]")
    landing = warehouse.landing
    changed = opened(write_study(tmp_path, text), landing)
    assert [need.probe for need in changed.missing if need.profiles] == ["links"]
    after = profiled(changed, landing)
    warehouse.load()
    assert predict_missing(LINEAR, after, warehouse, Progress()).equals(before[LINEAR])
    again = predict_missing(LINE_RATE, after, warehouse, Progress())
    assert again.height == before[LINE_RATE].height
    assert not set(again["fit_id"]) & set(before[LINE_RATE]["fit_id"])
    assert predict_missing(LINE_RATE, after, warehouse, Progress()).equals(again)


def _workers(rows: pl.DataFrame, round_: Round) -> list[int]:
    scenarios = [
        scenario for curve in round_.study.curves for scenario in curve.scenarios("loopback")
    ]
    by_id = {scenario.scenario_id: scenario.strategy.workers for scenario in scenarios}
    return [by_id[scenario_id] for scenario_id in rows["subject_id"]]


OTHER = {
    "study": "other",
    "repeat": 2,
    "backend": "emulated",
    "host_id": "elsewhere",
    "metric": "step_time_s",
    "subject_id": "0" * 16,
}


def test_nothing_is_measured_before_it_is_predicted(round_: Round, warehouse: Warehouse) -> None:
    message = (
        r"measure small_cnn .*W=1: the ledger has no prediction of it for round 1 of paper, and "
        "what is measured before it is predicted judges nothing"
    )
    with pytest.raises(BadInput, match=message):
        check_predicted(round_, ledger(warehouse))
    predict_round(replace(round_, study=only_linear(round_)), warehouse, Progress())
    warehouse.load()  # publishes it
    rows = ledger(warehouse)
    check_predicted(round_, rows)
    # A forecast of something else does not count.
    for column, value in OTHER.items():
        other = rows.with_columns(pl.lit(value, rows.schema[column]).alias(column))
        with pytest.raises(BadInput, match="the ledger has no prediction of it"):
            check_predicted(round_, other)
    (last,) = (need for need in round_.needs if need.title.endswith("W=3"))
    without = rows.filter(pl.col("subject_id") != last.scenario.scenario_id)
    with pytest.raises(BadInput, match=f"{last.title}: the ledger has no prediction"):
        check_predicted(round_, without)
    check_predicted(measure(round_, warehouse.landing, Progress()), without)


def only_linear(round_: Round) -> Study:
    return round_.study.model_copy(update={"systems": ("linear",)})


def unfit(tables: Tables) -> FittedSystem:
    raise BadInput("its packets were lost")


def test_a_system_that_cannot_be_fitted_is_left_out(round_: Round, warehouse: Warehouse) -> None:
    listener = Told()
    system = replace(LIN, fit=unfit)
    assert fit_round(system, round_, warehouse, listener) == {}
    assert predict_missing(system, round_, warehouse, listener).is_empty()
    assert len(listener.warnings) == 4
    for text in listener.warnings:
        assert "lin is left out for" in text and "its packets were lost" in text


def up_to_two(scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
    if scenario.strategy.workers > 2:
        return Refusal("it cannot count to three")
    return LINEAR.requires(scenario)


def test_what_a_system_refuses_is_told_and_not_waited_for(
    round_: Round, warehouse: Warehouse
) -> None:
    shy = replace(LINEAR, inputs=up_to_two)
    listener = Told()
    rows = predict_missing(shy, round_, warehouse, listener)
    assert sorted(_workers(rows, round_)) == [1, 1, 2]
    assert listener.warnings == [
        "linear does not predict alexnet 64px b4, unshaped, W=3: it cannot count to three"
    ]
    with pytest.raises(BadInput, match=r"W=3: the ledger has no prediction of it"):
        check_predicted(round_, ledger(warehouse))
    predict_missing(LINE_RATE, round_, warehouse, Progress())
    check_predicted(round_, ledger(warehouse))


class OnlyAnInterval:
    """A fitted model that does not know all that it would have to."""

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return no values."""
        return pl.DataFrame(
            {
                "scenario_id": [scenario.scenario_id for scenario in scenarios],
                "value": pl.Series([None] * len(scenarios), dtype=pl.Float64),
                "low": 1.5,
                "high": 2.5,
                "unknown": "no one has seen a Gizmo; profile one",
            }
        )

    def parameters_json(self) -> str:
        """Return nothing much."""
        return "{}"


def test_an_interval_without_a_value_is_told_recorded_and_counts_in_no_mean(
    round_: Round, warehouse: Warehouse, probes: PaperProbes
) -> None:
    vague = replace(
        LINEAR, fit=lambda tables: OnlyAnInterval(), load=lambda text, tables: OnlyAnInterval()
    )
    listener = Told()
    rows = predict_missing(vague, round_, warehouse, listener)
    assert rows.select("value", "low", "high").unique().rows() == [(None, 1.5, 2.5)]
    assert listener.warnings[0] == (
        "linear only knows that small_cnn 16px b4, unshaped, W=1 takes 1.5 to 2.5 step/s: "
        "no one has seen a Gizmo; profile one"
    )
    check_predicted(round_, ledger(warehouse))
    measure(round_, warehouse.landing, Progress())
    warehouse.load()
    accuracy = read_only(warehouse.home, "SELECT * FROM report.accuracy")
    assert accuracy["error_percent"].null_count() == accuracy.height == 4
    assert accuracy["inside_interval"].null_count() == 0
    assert read_only(warehouse.home, "SELECT * FROM report.leaderboard").is_empty()


def landed_study(text: str, folder: Path, warehouse: Warehouse) -> Round:
    """Return a round of the study with this text, with its profiles."""
    study_round = profiled(opened(write_study(folder, text), warehouse.landing), warehouse.landing)
    warehouse.load()
    return study_round


@pytest.fixture
def two_servers(tmp_path: Path, warehouse: Warehouse, probes: PaperProbes) -> Round:
    """Return a round of which the first curve has two servers, with its profiles."""
    text = STUDY.replace("workers: [1, 2]", "servers: 2, workers: [1, 2]")
    text = text.replace(LOOPBACK, "backend: loopback")
    return landed_study(text, tmp_path, warehouse)


def test_several_servers_are_predicted_from_their_profile_and_from_that_of_one(
    two_servers: Round, warehouse: Warehouse
) -> None:
    profiles = {run.run_id: run.scenario_id for run in two_servers.runs}
    curve = two_servers.study.curves[0]
    for system, shown in (
        (ASYNC_SGD, curve),
        (ONE_SERVER, curve.model_copy(update={"servers": 1})),
    ):
        fit = fit_round(system, two_servers, warehouse, Progress())[curve]
        seen = {profiles[run_id] for run_id in fit.group.run_ids} - {None}
        assert seen == {shown.profiled("loopback").scenario_id}
        predict_missing(system, two_servers, warehouse, Progress())
    rows = ledger(warehouse)
    forecast = rows.filter(system="async_sgd_one_server")["subject_id"]
    assert set(forecast) == {scenario.scenario_id for scenario in curve.scenarios("loopback")}
    assert rows.filter(system="async_sgd").height == 4


@pytest.fixture
def mixed(tmp_path: Path, warehouse: Warehouse, probes: PaperProbes) -> Round:
    """Return a round of which the first curve has workers of two types, with its profiles."""
    return landed_study(MIXED, tmp_path, warehouse)


def test_workers_of_two_types_are_predicted_from_a_profile_of_each(
    mixed: Round, warehouse: Warehouse
) -> None:
    scenario_of = {run.run_id: run.scenario_id for run in mixed.runs}
    curve = mixed.study.curves[0]
    profiles = [
        curve.model_copy(update={"worker": (name,)}).profiled("loopback").scenario_id
        for name in curve.worker
    ]
    of_one, of_two = (scenario.scenario_id for scenario in curve.scenarios("loopback"))
    for system, shown, forecast in (
        (ASYNC_SGD, 2, {of_one, of_two}),
        (LINEAR, 2, {of_one, of_two}),
        (LIN, 1, {of_one}),
        (LINE_RATE, 1, {of_one, of_two}),
    ):
        fit = fit_round(system, mixed, warehouse, Progress())[curve]
        seen = {scenario_of[run_id] for run_id in fit.group.run_ids} - {None}
        assert seen == set(profiles[:shown])
        rows = predict_missing(system, mixed, warehouse, Progress())
        assert set(rows["subject_id"]) & {of_one, of_two} == forecast
