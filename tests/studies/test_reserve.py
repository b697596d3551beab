"""What is in reserve is forecast with the rest of the first round, and not measured."""

from pathlib import Path

import polars as pl
import pytest

from forecasting.resting import resting
from forecasting.results import forecasts
from models.srift.system import SRIFT
from profilers.probes import PROBES
from studies.plan import prediction_name, tasks
from studies.study import Study, read_study
from tests.synthetic import DDP, landed, needs, opened, write_study
from warehouse.asks import Refusal
from warehouse.records import BadInput, Scenario

RESERVE = """
reserve:
  - {dnn: resnet18, framework: pytorch, strategy: all_reduce, image_size: 32, batch_size: 8,
     worker: emu.native.c25, link_mbps: 800, workers: [2, 8]}
  - {dnn: alexnet, framework: pytorch, strategy: all_reduce, image_size: 64, batch_size: 4,
     worker: emu.native.c25, link_mbps: 800, workers: [2]}
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """Return a study with three points in reserve."""
    return read_study(write_study(tmp_path, DDP + RESERVE))


def reserved(study: Study) -> list[Scenario]:
    curves = [curve for curve in study.curves if curve.is_reserve]
    return [one for curve in curves for one in curve.scenarios("emulated")]


def test_it_is_forecast(study: Study, tmp_path: Path) -> None:
    assert len(reserved(study)) == 3
    without = read_study(write_study(tmp_path, DDP))
    with_reserve_s, without_s = (
        {task.name: task.expected_s for task in tasks(opened(one))}[prediction_name("srift")]
        for one in (study, without)
    )
    assert with_reserve_s > without_s
    needed = needs(study)
    asked = [
        scenario
        for curve in study.curves
        if curve.is_reserve
        for scenario, rests in resting(SRIFT, curve, needed, "emulated", ()).items()
        if not isinstance(rests, Refusal)
    ]
    assert asked == reserved(study)


def test_it_is_profiled_as_test_scenarios_are_and_never_measured(study: Study) -> None:
    judges = [need for need in needs(study) if PROBES[need.probe].metric]
    assert judges
    assert not {need.scenario for need in judges} & set(reserved(study))
    profiled = {
        need.scenario.workload.dnn for need in needs(study) if need.probe == "torch_compute"
    }
    assert profiled == {"resnet18", "alexnet"}


def test_nothing_is_said_of_how_it_was_judged(study: Study) -> None:
    made = pl.DataFrame(
        schema={
            name: pl.String
            for name in ("backend", "host_id", "metric", "system", "subject_id", "made_at")
        }
        | dict.fromkeys(("value", "low", "high"), pl.Float64)
    )
    shown = forecasts(opened(study), made, "srift")
    assert not set(shown["scenario_id"]) & {one.scenario_id for one in reserved(study)}


def test_later_rounds_forecast_it_no_more(study: Study) -> None:
    first = [landed(need) for need in needs(study)]
    second = opened(study, runs=first)
    assert second.repeat == 2
    assert reserved(second.study) == []
    assert second.study.test == study.test
    drawn = study.model_copy(update={"again": study.again.model_copy(update={"fraction": 0.5})})
    assert reserved(drawn.in_round(2)) == []


def test_without_test_scenarios_beside_it_it_is_refused(tmp_path: Path) -> None:
    alone = (DDP + RESERVE).replace("\ntest:\n", "\ntrain:\n")
    with pytest.raises(BadInput, match="reserve: a study forecasts it beside test scenarios"):
        read_study(write_study(tmp_path, alone))


def test_what_is_tested_or_trained_already_is_refused(tmp_path: Path) -> None:
    twice = (DDP + RESERVE).replace(
        "batch_size: 8,\n     worker: emu.native.c25, l",
        "batch_size: 4,\n     worker: emu.native.c25, l",
    )
    with pytest.raises(BadInput, match=r"reserve\[0\] repeats resnet18 .* of test\[0\]"):
        read_study(write_study(tmp_path, twice))
    trained = DDP + RESERVE + RESERVE.replace("reserve:", "train:")
    with pytest.raises(BadInput, match=r"reserve\[0\]: .* is in train\[0\] too"):
        read_study(write_study(tmp_path, trained))


def test_it_cannot_be_marked_elsewhere(tmp_path: Path) -> None:
    marked = DDP.replace("batch_size: 4,", "batch_size: 4, is_reserve: true,")
    with pytest.raises(BadInput, match="is_reserve: not a field of a template"):
        read_study(write_study(tmp_path, marked))


def test_rounds_that_profile_nothing_again_rest_on_the_profiles_that_there_are(
    tmp_path: Path,
) -> None:
    study = read_study(write_study(tmp_path, DDP + RESERVE + "again: {profiles: false}\n"))
    first = [landed(need) for need in needs(study)]
    second = opened(study, runs=first)
    assert (second.repeat, second.study.carries_profiles) == (2, True)
    assert [need.purpose for need in second.missing] == ["measurement"] * 3
    assert {need.scenario for need in second.missing} == {
        one for curve in study.curves[:2] for one in curve.scenarios("emulated")
    }
    rested = {run.repeat for need, run in second.runs_of("torch_compute").items() if need.profiles}
    assert rested == {1}
    again = [landed(need, 2) for need in second.missing]
    assert opened(study, runs=[*first, *again]).repeat == 3
