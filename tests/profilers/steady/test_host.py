"""What a host says of itself."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from profilers.steady import host
from profilers.steady.host import CpuTimes, MeasuredValue, Patience


def test_a_start_of_the_host_is_told_and_is_no_other_host() -> None:
    description = host.description()
    assert description["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    booted_at = datetime.fromisoformat(description["booted_at"])
    up_s = float(Path("/proc/uptime").read_text().split()[0])
    assert abs((datetime.now(UTC) - booted_at).total_seconds() - up_s) < 60
    assert not {"boot_id", "booted_at", "kernel"} & host.hardware().keys()


def cpu_times(stolen: Sequence[float]) -> Callable[[], CpuTimes]:
    """What is counted before and after each attempt, of which so much is stolen."""
    times = iter(
        time for share in stolen for time in (CpuTimes(0, 0, 0), CpuTimes(5, 10 * share, 10))
    )
    return lambda: next(times)


def measured(
    stolen: Sequence[float], left_s: float = 60.0
) -> tuple[MeasuredValue[int], int, Patience]:
    """Return what counts, how often it was measured, and what is left of the patience.

    `stolen` is of each attempt.
    """
    patience = Patience(cpu_times(stolen), left_s)
    attempts = iter(range(len(stolen)))
    counted = patience.measure_undisturbed(lambda: next(attempts))
    return counted, len(stolen) - len(list(attempts)), patience


@pytest.mark.parametrize(
    ("stolen", "attempt", "attempts"),
    [([0.0, 0.5], 0, 1), ([0.02, 0.5], 0, 1), ([0.5, 0.01, 0.5], 1, 2), ([0.1, 0.2, 0.0], 2, 3)],
)
def test_disturbed_attempts_are_repeated(stolen: list[float], attempt: int, attempts: int) -> None:
    counted, made, _ = measured(stolen)
    assert (counted.value, made) == (attempt, attempts)
    assert counted.idle == 0.5
    assert counted.stolen == pytest.approx(stolen[attempt])


def test_patience_is_used_up_by_repeating(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr("profilers.steady.host.time.monotonic", lambda: float(next(clock)))
    counted, made, patience = measured([0.4, 0.3, 0.5, 0.0], left_s=15.0)
    assert (counted.value, made) == (1, 3)
    assert patience.left_s <= 0


def test_pieces_are_all_of_the_steps() -> None:
    sizes: list[int] = []

    def measure(steps: int) -> int:
        sizes.append(steps)
        return steps

    pieces = Patience(cpu_times([0.0, 0.5, 0.0, 0.0])).pieces(measure, 25, 10)
    assert [piece.value for piece in pieces] == [10, 10, 5]
    assert sizes == [10, 10, 10, 5], "the disturbed piece is measured again, alone"
