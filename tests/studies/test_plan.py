"""A plan lists what a round lacks, and nothing else."""

from collections.abc import Iterable
from datetime import timedelta
from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from profilers.probe import PlannedRun
from studies.plan import REPORT_NAME, RunDurations, Task, tasks
from studies.rounds import open_round
from studies.run_settings import with_settings
from studies.study import Study, read_study
from tests.synthetic import DDP, HOST, landed, needs, opened, write_study
from warehouse.landing import land, landed_runs
from warehouse.records import Run, Scenario


def planned(study: Study, runs: Iterable[Run] = ()) -> tuple[Task, ...]:
    return tasks(open_round(study, inputs_of_study(study), "emulated", HOST, runs))


def names(study_file: Path, done: int) -> list[str]:
    study = read_study(study_file)
    runs = [landed(need) for need in needs(study)[:done]]
    return [task.name for task in planned(study, runs)]


def test_a_plan_is_in_the_order_in_which_things_run(study_file: Path) -> None:
    whole = names(study_file, 0)
    kinds = [name.partition(" ")[0] for name in whole]
    systems = len(inputs_of_study(read_study(study_file)).systems)
    forecasts = [*["fit"] * systems, *["predict"] * systems]
    assert kinds == ["probe", *["profile"] * 2, *forecasts, *["measure"] * 4, "judge"]
    assert whole[-1] == REPORT_NAME
    assert len(set(whole)) == len(whole)


def test_only_systems_that_forecast_are_planned(study_file: Path) -> None:
    study = read_study(study_file)
    round_ = open_round(study, inputs_of_study(study), "emulated", HOST, ())
    ahead = tasks(round_, forecasting=["linear"])
    task_names = [task.name for task in ahead if task.kind in ("fit", "predict")]
    assert task_names == ["fit linear", "predict by linear"]


def test_what_has_landed_is_not_planned(study_file: Path) -> None:
    rest = names(study_file, 5)
    assert [name for name in rest if name.startswith("measure")] == [
        "measure alexnet 64px b4, 200 Mb/s, W=1",
        "measure alexnet 64px b4, 200 Mb/s, W=3",
    ]
    assert not [name for name in rest if name.startswith(("probe", "profile"))]


def test_a_cluster_is_started_once_for_each_curve(study_file: Path) -> None:
    study = read_study(study_file)
    expected = {task.name: task.expected_s for task in planned(study)}
    first = expected["measure alexnet 64px b4, 200 Mb/s, W=1"]
    second = expected["measure alexnet 64px b4, 200 Mb/s, W=3"]
    windows = study.settings_of("tf_throughput")
    assert first > second >= windows.windows * windows.window_s


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
    by_probe: dict[str, PlannedRun] = {}
    for need in needs(read_study(write_study(tmp_path, DDP))):
        by_probe.setdefault(need.probe, need)
    return by_probe


def taken(landing: Path, host_id: str = HOST) -> RunDurations:
    return RunDurations(landed_runs(landing), host_id, landing)


def test_runs_take_as_long_as_the_median_of_those_before(
    needed: dict[str, PlannedRun], tmp_path: Path
) -> None:
    for repeat, seconds in enumerate((100, 700, 130), start=1):
        for name in ("links", "torch_compute"):
            took(needed[name], seconds, tmp_path / "landing", repeat)
    durations = taken(tmp_path / "landing")
    assert durations.seconds(needed["links"]) == durations.seconds(needed["torch_compute"]) == 130
    assert durations.seconds(needed["torch_throughput"]) is None


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


def test_a_plan_has_what_landed(needed: dict[str, PlannedRun], tmp_path: Path) -> None:
    need, landing = needed["torch_compute"], tmp_path / "landing"
    took(need, 777, landing)
    round_ = opened(read_study(write_study(tmp_path, DDP)))
    learned = {task.name: task for task in tasks(round_, taken(landing))}
    planned = {task.name: task for task in tasks(round_)}
    assert learned[need.title].expected_s == 777
    assert learned[need.title].kind == "torch_compute"
    others = [name for name in planned if name != need.title]
    assert [learned[name] for name in others] == [planned[name] for name in others]
