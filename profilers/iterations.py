"""Iterations of synchronous training: in pieces, until their mean is known well enough."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import polars as pl

from profilers.steady.confidence import half_width

PIECE_STEPS = 10
"""Counted iterations of a piece; one before them, which all ranks start at once, does not count."""
LEAST_PIECES = 2
KNOWN_AFTER_S = 40.0
"""About how long iterations take until the interval of their mean is as narrow as studies ask for;
half of the iterations do, where these are short."""


@dataclass(frozen=True)
class Goal:
    """When a scenario is measured: after `iterations`, or sooner.

    Sooner is once the 95 % confidence interval of their mean is within `interval` of it to both
    sides (0.02: 2 %), or after `most_s` seconds; None: never.

    The interval is the scatter within one visit only, and counts iterations as independent, though
    they share slow minutes of the host. It does not say how far the mean of another visit may be:
    that is the noise floor (view report.noise).
    """

    iterations: int
    interval: float | None = None
    most_s: float | None = None

    def reached(self, steps_s: Sequence[float], passed_s: float) -> bool:
        """Tell whether that is so after these iterations; two pieces are always measured."""
        if len(steps_s) < LEAST_PIECES * PIECE_STEPS:
            return False
        if len(steps_s) >= self.iterations or passed_s >= (self.most_s or math.inf):
            return True
        return self.interval is not None and half_width(steps_s) <= self.interval

    def expected_steps(self, step_s: float) -> int:
        """Return about how many iterations of so many seconds are counted, in whole pieces."""
        wanted = self.iterations / 1.0
        if self.interval is not None:
            wanted = min(wanted / 2, KNOWN_AFTER_S / step_s)
        if self.most_s is not None:
            wanted = min(wanted, self.most_s / step_s)
        return PIECE_STEPS * max(LEAST_PIECES, round(wanted / PIECE_STEPS))


@dataclass(frozen=True)
class Piece:
    """Iterations that followed each other: when each rank's began, and when the last one ended.

    [ranks][iterations + 1], microseconds of UTC; the first iteration does not count.
    """

    times_us: tuple[tuple[int, ...], ...]

    @property
    def steps_s(self) -> list[float]:
        """Return the seconds of each counted iteration, the mean over ranks."""
        ranks = [
            [(end - start) / 1e6 for start, end in itertools.pairwise(times[1:])]
            for times in self.times_us
        ]
        return [fmean(step) for step in zip(*ranks, strict=True)]


def step_rows(warm_up: Piece, pieces: Sequence[Piece]) -> pl.DataFrame:
    """Return table step; each piece is a window, and what does not count is in none."""
    rows = []
    counts = [0] * len(warm_up.times_us)
    for window, piece in enumerate([warm_up, *pieces], start=-1):
        for rank, times in enumerate(piece.times_us):
            for i, (start_us, end_us) in enumerate(itertools.pairwise(times)):
                inside = window if window >= 0 and i else None
                rows.append((rank, counts[rank], inside, False, start_us, end_us))
                counts[rank] += 1
    columns = ["worker", "step", "window", "traced", "start_us", "end_us"]
    types = {"worker": pl.Int16, "step": pl.Int32, "window": pl.Int16}
    return pl.DataFrame(rows, columns, orient="row", schema_overrides=types)
