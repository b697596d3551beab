"""Which windows of a running job count: those in which the host was left in peace."""

import itertools
from collections.abc import Sequence

import pytest

from profilers import host
from profilers.host import CpuTimes
from profilers.tf_job import StepTime
from profilers.tf_throughput import PATIENCE_S, Recorder

STEP_US = 100_000


def recorded(stolen: Sequence[float], monkeypatch: pytest.MonkeyPatch) -> Recorder:
    """Feed steps of one worker until the recorder has enough; `stolen` is of each window."""
    shares = itertools.chain([0.0], stolen)
    ticks = itertools.accumulate(
        ((10 * share, 10.0) for share in shares),
        lambda sums, more: (sums[0] + more[0], sums[1] + more[1]),
    )
    times = (CpuTimes(total / 2, taken, total) for taken, total in ticks)
    # Each window asks twice: when it ends, and when the next one opens.
    asked = itertools.chain.from_iterable((one, one) for one in times)
    monkeypatch.setattr(host, "cpu_times", lambda: next(asked))
    recorder = Recorder(workers=1, windows=2, window_s=1.0)
    for step in range(10_000):
        if recorder.until(0, StepTime(step * STEP_US, (step + 1) * STEP_US)):
            return recorder
    raise AssertionError("never enough")


def test_quiet_windows_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorded([0.0, 0.01], monkeypatch)
    assert [one.stolen for one in recorder.counted] == pytest.approx([0.0, 0.01])
    assert recorder.counted == recorder.measured


def test_a_disturbed_window_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = recorded([0.2, 0.0, 0.01], monkeypatch)
    assert [one.stolen for one in recorder.counted] == pytest.approx([0.0, 0.01])
    assert len(recorder.measured) == 3


def test_where_it_is_never_quiet_the_least_disturbed_count(monkeypatch: pytest.MonkeyPatch) -> None:
    stolen = [0.2, 0.05, 0.4, 0.1] + 100 * [0.3]
    recorder = recorded(stolen, monkeypatch)
    assert len(recorder.measured) == 2 + PATIENCE_S
    assert [one.stolen for one in recorder.counted] == pytest.approx([0.05, 0.1])
