"""What is measured again, and which attempt counts."""

from collections.abc import Sequence

import pytest

from profilers import host
from profilers.host import CpuTimes
from profilers.quiet import Measured, Patience


def measured(
    stolen: Sequence[float], patience: Patience, monkeypatch: pytest.MonkeyPatch
) -> tuple[Measured[int], int]:
    """Return what counts, and how often it was measured; `stolen` is of each attempt."""
    times = iter(time for one in stolen for time in (CpuTimes(0, 0, 0), CpuTimes(5, 10 * one, 10)))
    monkeypatch.setattr(host, "cpu_times", lambda: next(times))
    attempts = iter(range(len(stolen)))
    counted = patience.quietly(lambda: next(attempts))
    return counted, len(stolen) - len(list(attempts))


@pytest.mark.parametrize(
    ("stolen", "attempt", "attempts"),
    [([0.0, 0.5], 0, 1), ([0.02, 0.5], 0, 1), ([0.5, 0.01, 0.5], 1, 2), ([0.1, 0.2, 0.0], 2, 3)],
)
def test_disturbed_attempts_are_repeated(
    stolen: list[float], attempt: int, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted, made = measured(stolen, Patience(), monkeypatch)
    assert (counted.value, made) == (attempt, attempts)
    assert counted.idle == 0.5
    assert counted.stolen == pytest.approx(stolen[attempt])


def test_without_patience_the_first_attempt_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, made = measured([0.4, 0.0], Patience(left_s=0.0), monkeypatch)
    assert (counted.value, made, counted.disturbed) == (0, 1, True)


def test_patience_is_used_up_by_repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("profilers.quiet.time.monotonic", lambda: float(next(clock)))
    patience = Patience(left_s=15.0)
    counted, made = measured([0.4, 0.3, 0.5, 0.0], patience, monkeypatch)
    assert (counted.value, made) == (1, 3)
    assert patience.left_s <= 0


def test_pieces_are_all_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    stolen = iter([0.0, 0.5, 0.0, 0.0])
    times = (time for one in stolen for time in (CpuTimes(0, 0, 0), CpuTimes(5, 10 * one, 10)))
    monkeypatch.setattr(host, "cpu_times", lambda: next(times))
    asked: list[int] = []

    def measure(steps: int) -> int:
        asked.append(steps)
        return steps

    found = Patience().pieces(measure, 25, 10)
    assert [one.value for one in found] == [10, 10, 5]
    assert asked == [10, 10, 10, 5], "the disturbed piece is measured again, alone"
