"""What ranks of a collective operation wait for the last of them to arrive."""

from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from warehouse.records import ProbeFailed

Times = Sequence[Sequence[int]]
"""Nanoseconds by repetition and transfer."""


class Timed(NamedTuple):
    """A rank's seconds of a trial, the mean of its transfers; `raw_seconds` with waiting."""

    trial: int
    rank: int
    seconds: float
    raw_seconds: float


def without_waiting(starts_ns: Sequence[Times], ends_ns: Sequence[Times]) -> list[Timed]:
    """Return each rank's time of each repetition, with and without the wait for the last to start.

    Args:
        starts_ns: by rank, when it started each transfer of each repetition, on one clock.
        ends_ns: likewise, when it had the sum.

    Raises:
        ProbeFailed: a rank had a sum before all had started, which only clocks can cause.
    """
    timed = []
    for trial, transfers in enumerate(zip(*starts_ns, strict=True)):
        latest = [max(starts) for starts in zip(*transfers, strict=True)]
        for rank, started in enumerate(transfers):
            ended = ends_ns[rank][trial]
            if any(end <= start for end, start in zip(ended, latest, strict=True)):
                raise ProbeFailed(
                    f"rank {rank} had its sum before the last rank started: the clocks of the "
                    "nodes differ by more than an all-reduce takes; synchronize them (chrony)"
                )
            timed.append(
                Timed(
                    trial,
                    rank,
                    fmean(end - start for end, start in zip(ended, latest, strict=True)) / 1e9,
                    fmean(end - start for end, start in zip(ended, started, strict=True)) / 1e9,
                )
            )
    return timed
