"""Times that nobody can set: the wall clock is read once, and what has passed since is counted.

A person, NTP or a host that wakes up may set the wall clock at any moment. Dates that are written
down come from here, so that those of one process are in order and as far apart as they were.
"""

import os
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from warehouse.records import ProbeFailed

VARIABLE = "STEPCAST_CLOCK"
"""Tells the programs of a cluster on one machine to read the same clock: boot id and offset."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TRIES = 10
_AGREES_NS = 1_000_000


def counted_ns() -> int:
    """Return nanoseconds since this machine started, those in which it slept among them."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@cache
def boot_id() -> str:
    """What tells this start of this machine from all others."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def offset_ns() -> int:
    """Return what the wall clock now has ahead of `counted_ns`."""
    # Between two readings others may get the core: what lies closest together counts.
    readings = [(counted_ns(), time.time_ns(), counted_ns()) for _ in range(_TRIES)]
    before, wall, after = min(readings, key=lambda reading: reading[2] - reading[0])
    return wall - (before + after) // 2


def environment() -> dict[str, str]:
    """Return the variable that lets programs of this machine read the wall clock of now."""
    return {VARIABLE: f"{boot_id()} {offset_ns()}"}


class ClockSet(ProbeFailed):
    """The wall clock was set while others timed by it."""


def check_unset(given: Mapping[str, str]) -> None:
    """Refuse that the wall clock was set since programs were given it, by more than a millisecond.

    What others have timed by it, such as TensorFlow's tracer and tcpdump, is then beside our times.

    Args:
        given: the `environment` of those programs.

    Raises:
        ClockSet: it was.
    """
    set_ns = offset_ns() - int(given[VARIABLE].partition(" ")[2])
    if abs(set_ns) > _AGREES_NS:
        raise ClockSet(
            f"the wall clock was set by {set_ns / 1e9:+.3f} s while traces were recorded, whose "
            "times follow it; run it again"
        )


def now_us() -> int:
    """Return the microseconds of UTC, by the wall clock that this process has read once."""
    return (counted_ns() + _offset_ns()) // 1000


def now() -> datetime:
    """Return the date, by the wall clock that this process has read once."""
    return _EPOCH + timedelta(microseconds=now_us())


@cache
def _offset_ns() -> int:
    boot, _, offset = os.environ.get(VARIABLE, "").partition(" ")
    return int(offset) if boot == boot_id() else offset_ns()
