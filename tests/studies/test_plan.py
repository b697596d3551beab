"""A plan lists what a round lacks, and nothing else."""

from collections.abc import Iterable
from pathlib import Path

from forecasting.inputs import inputs_of_study
from studies.plan import REPORT_NAME, Task, tasks
from studies.rounds import open_round
from studies.study import Study, read_study
from tests.synthetic import HOST, landed, needs
from warehouse.records import Run


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


def test_a_cluster_is_started_once_for_each_curve(study_file: Path) -> None:
    study = read_study(study_file)
    expected = {task.name: task.expected_s for task in planned(study)}
    first = expected["measure alexnet 64px b4, 200 Mb/s, W=1"]
    second = expected["measure alexnet 64px b4, 200 Mb/s, W=3"]
    windows = study.settings_of("tf_throughput")
    assert first > second >= windows.windows * windows.window_s
