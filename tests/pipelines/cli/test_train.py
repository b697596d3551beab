"""`stepcast train`: told, asked, stopped and killed."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pipelines.cli import train
from pipelines.runtime import IfInfeasible, checkpoints
from pipelines.runtime.job_store import EventLogEntry
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.state import JobState
from tests.leftovers import left_behind, programs
from tests.pipelines.ran import Started, Stepcast
from tests.pipelines.runtime.jobs import SAMPLES, write_job
from tests.pipelines.runtime.sample_logs import consumed_samples, read_sample_logs

ANOTHER_DEADLINE = LimitRelaxation(text="raise the deadline", deadline_s=99.0, budget_usd=None)
LATE = Infeasible("too late", (ANOTHER_DEADLINE,), 50.0, None)


def test_what_happened_is_told(
    stepcast: Stepcast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def trained(*given: Any, **_: Any) -> tuple[SimpleNamespace, JobState]:
        story = [
            EventLogEntry(at_s=0.0, event="began", detail={"iterations": 20}),
            EventLogEntry(at_s=9.0, event="aborted", step=8, detail={"cost_usd": 0.5}),
        ]
        for entry in story:
            given[4](entry)
        return SimpleNamespace(story=story, folder="there"), JobState(iterations=20, error="late")

    monkeypatch.setattr("pipelines.runtime.attempt.train", trained)
    job = write_job(tmp_path, backend="loopback")
    answer = stepcast("train", str(job))
    assert "[    9.0 s] aborted at iteration 8: cost_usd 0.5" in answer.err
    assert (answer.code, answer.err.splitlines()[-1]) == (1, "stepcast: job small: late")


@pytest.mark.parametrize(
    ("policy", "way"), [("abort", None), ("deadline", ANOTHER_DEADLINE), ("budget", None)]
)
def test_a_policy_answers_where_nobody_can(
    policy: IfInfeasible, way: LimitRelaxation | None
) -> None:
    assert train.answerer(policy)(LATE, JobState(iterations=20)) == way


def test_a_user_is_asked(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    answers = iter([1, 2, -3, 0])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("typer.prompt", lambda text, type: next(answers))
    answer = train.answerer("ask")
    state = JobState(iterations=20)
    assert answer(LATE, state) == ANOTHER_DEADLINE
    assert answer(LATE, state) is None
    output = capsys.readouterr().out
    assert "too late; 0 nodes wait at $0.00 per hour" in output
    assert "  0  abort; the last checkpoint stays\n  1  raise the deadline\n" in output


def test_bad_input_is_exit_2(stepcast: Stepcast) -> None:
    assert "job none.yaml does not exist" in stepcast("train", "none.yaml").refusal


def test_being_terminated_is_being_stopped(
    stepcast: Stepcast, tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed_softly(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("pipelines.runtime.attempt.train", killed_softly)
    answer = stepcast("train", str(write_job(tmp_path, backend="loopback")))
    assert answer.code == 130
    assert "backend loopback: asked for" in answer.err
    assert "goes on from the last checkpoint" in answer.err


def ranks(home: Path) -> list[str]:
    """Return the programs of a home's ranks."""
    return [line for line in programs(f"STEPCAST_HOME={home}") if "pipelines.runtime.rank" in line]


@pytest.mark.cluster
def test_stopped_and_killed_it_leaves_nothing_and_goes_on(tmp_path: Path, home: Path) -> None:
    job = write_job(tmp_path, iterations=1000, backend="emulated", checkpoint_every=4)
    stopped = Started(home, "train", str(job))
    stopped.match("(saved at iteration 8)")
    assert left_behind() and ranks(home)
    code, last = stopped.end(signal.SIGINT)
    assert (code, "goes on from the last checkpoint" in last) == (130, True)
    assert left_behind() + ranks(home) == []

    killed = Started(home, "train", str(job))
    resumed = int(killed.match(r"resumed at iteration (\d+)"))
    while len(ranks(home)) < 2:
        time.sleep(0.05)
    assert killed.end(signal.SIGKILL)[0] == -signal.SIGKILL
    deadline_s = time.monotonic() + 20
    while left_behind() + ranks(home) and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert left_behind() + ranks(home) == []

    (folder,) = (home / "training" / "small").iterdir()
    done, _ = checkpoints.newest(folder)
    assert done == resumed >= 8
    steps = consumed_samples(read_sample_logs(folder))
    # Ctrl-C saved what was trained; a rank may be an iteration ahead of the one that saved.
    assert done - 1 <= max(steps) <= done + 1
    stream = [sample for step in range(done) for sample in steps[step]]
    epochs = [stream[start : start + SAMPLES] for start in range(0, 8 * done, SAMPLES)]
    assert len(epochs) > 3
    assert [sorted(epoch) for epoch in epochs[:-1]] == [list(range(SAMPLES))] * len(epochs[:-1])
