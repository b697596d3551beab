"""A plan learns from runs that have landed: of the same probe, network and nodes."""

from datetime import timedelta
from pathlib import Path

import pytest

from profilers.probe import PlannedRun
from studies.plan import RunDurations, tasks
from studies.run_settings import with_settings
from studies.study import read_study
from tests.synthetic import DDP, HOST, landed, needs, opened, write_study
from warehouse.landing import land, landed_runs
from warehouse.records import Run, Scenario


def took(
    need: PlannedRun,
    seconds: float,
    landing: Path,
    repeat: int = 1,
    scenario: Scenario | None = None,
) -> None:
    """Land a run like a need, perhaps of another scenario, that took so long."""
    about = scenario or need.subject.scenario
    run = landed(need, repeat, run_id=f"{need.probe}-{repeat}-{seconds:g}")
    changes = {
        "ended_at": run.started_at + timedelta(seconds=seconds),
        "scenario_id": None if about is None else about.scenario_id,
    }
    land(landing, with_settings(run.model_copy(update=changes), need.settings), about, {})


@pytest.fixture
def needed(tmp_path: Path) -> dict[str, PlannedRun]:
    """Return the first need of each probe of a study of PyTorch."""
    found: dict[str, PlannedRun] = {}
    for need in needs(read_study(write_study(tmp_path, DDP))):
        found.setdefault(need.probe, need)
    return found


def taken(landing: Path, host_id: str = HOST) -> RunDurations:
    return RunDurations(landed_runs(landing), host_id, landing)


def test_runs_take_as_long_as_the_median_of_those_before(
    needed: dict[str, PlannedRun], tmp_path: Path
) -> None:
    for repeat, seconds in enumerate((100, 700, 130), start=1):
        for name in ("links", "torch_compute"):
            took(needed[name], seconds, tmp_path / "landing", repeat)
    found = taken(tmp_path / "landing")
    assert found.seconds(needed["links"]) == found.seconds(needed["torch_compute"]) == 130
    assert found.seconds(needed["torch_throughput"]) is None


def test_another_batch_is_alike_until_the_scenario_itself_has_run(
    needed: dict[str, PlannedRun], tmp_path: Path
) -> None:
    need = needed["torch_throughput"]
    load = need.scenario.workload
    landing = tmp_path / "landing"
    other = load.model_copy(update={"batch_size": 64})
    took(need, 50, landing, 1, need.scenario.model_copy(update={"workload": other}))
    foreign = load.model_copy(update={"dnn": "vgg11"})
    took(need, 900, landing, 2, need.scenario.model_copy(update={"workload": foreign}))
    assert taken(landing).seconds(need) == 50
    took(need, 70, landing, 3)
    assert taken(landing).seconds(need) == 70


@pytest.mark.parametrize(
    "change", [{"status": "failed", "error": "x"}, {"host_id": "another"}, {"config": {}}]
)
def test_runs_that_failed_elsewhere_or_do_not_say_what_was_asked_tell_nothing(
    needed: dict[str, PlannedRun], tmp_path: Path, change: dict[str, object]
) -> None:
    need = needed["links"]
    run = with_settings(landed(need), need.settings).model_copy(update=change)
    assert RunDurations([run], HOST, tmp_path).seconds(need) is None


def test_runs_that_were_asked_for_something_else_tell_nothing(
    needed: dict[str, PlannedRun], tmp_path: Path
) -> None:
    need = needed["links"]
    run: Run = with_settings(landed(need), {**need.settings, "seconds": 30})
    assert RunDurations([run], HOST, tmp_path).seconds(need) is None


def test_a_plan_has_what_landed(needed: dict[str, PlannedRun], tmp_path: Path) -> None:
    need, landing = needed["torch_compute"], tmp_path / "landing"
    took(need, 777, landing)
    round_ = opened(read_study(write_study(tmp_path, DDP)))
    learned = {task.name: task for task in tasks(round_, taken(landing))}
    planned = {task.name: task for task in tasks(round_)}
    assert learned[need.title].expected_s == 777
    assert learned[need.title].kind == "torch_compute"
    others = [name for name in planned if name != need.title]
    assert [learned[one] for one in others] == [planned[one] for one in others]
