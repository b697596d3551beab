"""What probes return lands at once, failures too, and nothing is left behind."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from forecasting.inputs import inputs_of_study
from profilers.steady.host import host_id
from studies.measurement import measure, profile
from studies.messages import Progress
from studies.rounds import Round, open_round
from studies.study import read_study
from tests.pipelines.ran import MEASURED
from tests.synthetic import PaperProbes
from warehouse.landing import landed_runs
from warehouse.records import ProbeFailed, Scenario


class Listener(Progress):
    """Keeps what was told, and what was finished."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.told: list[str] = []

    def say(self, text: str) -> None:
        self.told.append(text)

    def finished(self, task: str) -> None:
        self.done.append(task)


@pytest.fixture
def landing(home: Path) -> Path:
    """Return a landing folder that is not there yet."""
    return home / "landing"


def now(study_file: Path, landing: Path) -> Round:
    """Return the round to be done of the study, with contention probed."""
    study = read_study(study_file)
    probed = {**study.probes, "contention": {"flows": [1, 2], "seconds": 1, "trials": 2}}
    study = study.model_copy(update={"probes": probed})
    return open_round(study, inputs_of_study(study), "loopback", host_id(), landed_runs(landing))


@pytest.mark.parametrize(
    ("run", "names"),
    [
        (partial(profile, probe="contention"), ["probe contention, unshaped, emu.native.c25"]),
        (
            partial(profile, probe="tf_trace"),
            ["profile small_cnn 16px b4, unshaped, W=1", "profile alexnet 64px b4, unshaped, W=1"],
        ),
        (measure, MEASURED),
    ],
)
def test_what_is_missing_is_run_once(
    run: Callable[..., Round],
    names: list[str],
    study_file: Path,
    landing: Path,
    probes: PaperProbes,
) -> None:
    listener = Listener()
    after = run(now(study_file, landing), landing=landing, progress=listener)
    assert listener.done == names
    assert not set(names) & {need.title for need in after.missing}
    assert len(list(landing.iterdir())) == len(names)
    again = run(now(study_file, landing), landing=landing, progress=listener)
    assert again == after
    assert listener.done == names


@pytest.mark.parametrize(
    ("run", "name", "fail_at"),
    [
        (partial(profile, probe="links"), "probe links, unshaped", "links"),
        (
            partial(profile, probe="tf_trace"),
            "profile alexnet 64px b4, unshaped, W=1",
            "profile alexnet",
        ),
        (measure, MEASURED[1], MEASURED[1]),
    ],
)
def test_a_failed_run_lands_and_is_told(
    run: Callable[..., Round],
    name: str,
    fail_at: str,
    study_file: Path,
    landing: Path,
    probes: PaperProbes,
) -> None:
    probes.fail_at = fail_at
    with pytest.raises(ProbeFailed, match="no paper left; its run has landed") as caught:
        run(now(study_file, landing), landing=landing, progress=Progress())
    assert str(caught.value).startswith(f"{name} failed: ")
    (failed,) = [run for run in landed_runs(landing) if run.status == "failed"]
    assert failed.error is not None
    assert "no paper left" in failed.error
    assert name in {need.title for need in now(study_file, landing).missing}
    assert not [path for path in landing.iterdir() if path.name.startswith(".")]


def test_each_scenario_has_landed_before_the_next_is_measured(
    study_file: Path, landing: Path, probes: PaperProbes
) -> None:
    landed: list[int] = []

    def throughput(scenario: Scenario) -> float:
        landed.extend({len(landed_runs(landing))} - set(landed))
        return 1.0

    probes.throughput = throughput
    measure(now(study_file, landing), landing, Progress())
    assert landed == [0, 1, 2, 3]


def test_an_interrupt_leaves_whole_runs_only(
    study_file: Path, landing: Path, probes: PaperProbes
) -> None:
    def throughput(scenario: Scenario) -> float:
        if scenario.strategy.workers == 2:
            raise KeyboardInterrupt
        return 1.0

    probes.throughput = throughput
    with pytest.raises(KeyboardInterrupt):
        measure(now(study_file, landing), landing, Progress())
    (run,) = landed_runs(landing)
    assert [path.name for path in landing.iterdir()] == [run.run_id]
