"""`stepcast train`: rehearsed, asked, stopped and killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pipelines.cli import train
from pipelines.runtime import checkpoints
from pipelines.runtime.plan import Infeasible, LimitRelaxation
from pipelines.runtime.state import JobState
from profilers.clusters import owner
from tests.leftovers import left_behind
from tests.pipelines.runtime.jobs import FAST, SAMPLES, SLOW, write_job
from tests.pipelines.runtime.sample_logs import consumed_samples, read_sample_logs
from warehouse.home import CHECKOUT

LOST = [{"after_iterations": 8, "node_type": FAST}]
ANOTHER_DEADLINE = LimitRelaxation(text="raise the deadline", deadline_s=99.0, budget_usd=None)
LATE = Infeasible("too late", (ANOTHER_DEADLINE,), 50.0, None)


def test_a_rehearsal_tells_what_would_happen(
    stepcast: Callable[..., Any], tmp_path: Path, home: Path
) -> None:
    picture = tmp_path / "rehearsed.svg"
    job = write_job(tmp_path, interruptions=LOST)
    answer = stepcast("train", str(job), "--rehearse", "--picture", str(picture))
    assert answer.code == 0
    assert f"planned at iteration 0: configuration 2 {FAST}@4" in answer.err
    assert f"lost node0 {FAST}: reason ended" in answer.err
    assert f"planned at iteration 8: configuration 1 {FAST}@4 + 2 {SLOW}@2" in answer.err
    assert "finished at iteration 20" in answer.err
    assert answer.out == f"{picture}\n"
    assert picture.read_text().startswith("<svg")
    kept = {path.name for path in home.iterdir()} - {owner.RUN}
    assert not kept, "nothing is kept of what did not happen"


@pytest.mark.parametrize(("policy", "code"), [("abort", 1), ("deadline", 0), ("budget", 1)])
def test_a_policy_answers_where_nobody_can(
    stepcast: Callable[..., Any], tmp_path: Path, policy: str, code: int
) -> None:
    job = write_job(tmp_path, interruptions=LOST, deadline_s=12.0, if_infeasible=policy)
    answer = stepcast("train", str(job), "--rehearse")
    assert answer.code == code
    assert "asked: reason no nodes that are left meet the deadline" in answer.err
    last = answer.err.splitlines()[-1]
    assert last.startswith("stepcast: job small: aborted" if code else "[")


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.yaml"], "job none.yaml does not exist"),
        (["none.yaml", "--picture", "a.gif"], "expected a name that ends in .png or .svg"),
    ],
)
def test_bad_input_is_exit_2(
    stepcast: Callable[..., Any], arguments: list[str], message: str
) -> None:
    answer = stepcast("train", *arguments)
    assert answer.code == 2
    assert message in answer.err


def test_being_terminated_is_being_stopped(
    stepcast: Callable[..., Any], tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed_softly(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)

    monkeypatch.setattr("pipelines.runtime.attempt.train", killed_softly)
    before = signal.getsignal(signal.SIGTERM)
    try:
        answer = stepcast("train", str(write_job(tmp_path, backend="loopback")))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert answer.code == 130
    assert "backend loopback: asked for" in answer.err
    assert "goes on from the last checkpoint" in answer.err


class Started:
    """`stepcast train` as a process of its own, in a home of its own."""

    def __init__(self, job: Path, home: Path) -> None:
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-m", "pipelines.cli.main", "train", str(job)],
            env={**os.environ, "STEPCAST_HOME": str(home), "PYTHONPATH": str(CHECKOUT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []

    def until(self, pattern: str) -> str:
        """Return the first line that matches."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.said.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"never said {pattern}: {self.said}")

    def end(self, number: signal.Signals) -> int:
        """Send a signal; return the exit code."""
        assert self.process.stderr is not None
        self.process.send_signal(number)
        self.said += list(self.process.stderr)
        return self.process.wait(timeout=60)


def left() -> list[str]:
    """Return namespaces, control groups and programs of ours that are there."""
    return left_behind() + programs()


def programs() -> list[str]:
    """Return the pids of programs of ranks."""
    listed = ["pgrep", "-f", "python.* -m pipelines.runtime.rank"]
    return subprocess.run(listed, capture_output=True, text=True, check=False).stdout.split()


@pytest.mark.cluster
def test_stopped_and_killed_it_leaves_nothing_and_goes_on(tmp_path: Path, home: Path) -> None:
    job = write_job(tmp_path, iterations=1000, backend="emulated", checkpoint_every=4)
    stopped = Started(job, home)
    stopped.until("saved at iteration 8")
    assert left()
    assert stopped.end(signal.SIGINT) == 130
    assert "goes on from the last checkpoint" in stopped.said[-1]
    assert left() == []

    killed = Started(job, home)
    resumed = int(killed.until("resumed").split()[-1])
    while len(programs()) < 2:
        time.sleep(0.05)
    assert killed.end(signal.SIGKILL) == -signal.SIGKILL
    deadline_s = time.monotonic() + 20
    while left() and time.monotonic() < deadline_s:
        time.sleep(0.1)
    assert left() == []

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
