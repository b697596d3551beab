"""How long to measure: windows and iterations until their mean is known, and their throughput."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Self

import polars as pl
from pydantic import Field, model_validator

from profilers.nodes.tf_jobs import StepTime
from warehouse.fields import Repeats, Seconds
from warehouse.records import Record


@dataclass(frozen=True)
class Windows:
    """So many `windows` of `window_s` seconds or, with `interval`, until their mean is known.

    Known is once its 95 % confidence interval is within `interval` of it to both sides (0.02: 2 %),
    or with `most_windows`; never with fewer than `windows`.
    """

    windows: int
    window_s: float
    interval: float | None = None
    most_windows: int | None = None

    def are_enough(self, values: Sequence[float]) -> bool:
        """Tell whether that is so after windows with these values."""
        if len(values) < self.windows:
            return False
        if self.interval is None or len(values) >= (self.most_windows or self.windows):
            return True
        return half_width(values) <= self.interval


class Settings(Record):
    """Windows of each scenario: see `Windows`."""

    windows: Repeats = 3
    window_s: Seconds = 10
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_windows: Repeats | None = None

    @model_validator(mode="after")
    def _interval_has_an_end(self) -> Self:
        if (self.interval is None) != (self.most_windows is None):
            raise ValueError("interval and most_windows belong together; give both or neither")
        return self

    @property
    def expected_s(self) -> float:
        """Seconds of a scenario: its windows, and about one more until it is stationary."""
        return ((self.most_windows or self.windows) + 1) * self.window_s


# From the start and end of every worker's steps to throughput over windows.


@dataclass(frozen=True)
class Window:
    """A stretch of time, microseconds of UTC."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end_us - self.start_us) / 1e6


def steps_per_s(series: Mapping[int, Sequence[StepTime]], window: Window) -> float:
    """Steps of all workers per second inside a window.

    A step that crosses the window's edge counts by the fraction of it that lies inside; counting
    whole steps would be off by up to one step per worker.
    """
    steps = sum(_overlap(step, window) for steps in series.values() for step in steps)
    return steps / window.seconds


def is_stationary(
    series: Mapping[int, Sequence[StepTime]], now_us: int, block_s: float, tolerance: float
) -> bool:
    """Tell whether throughput of the last two blocks before `now_us` agrees within `tolerance`.

    Workers that start together drift apart over tens of steps, and throughput changes until they
    have (ICPE'20, Fig. 16).
    """
    block_us = round(block_s * 1e6)
    first = max(steps[0].start_us for steps in series.values() if steps)
    if now_us - 2 * block_us < first:
        return False
    earlier = steps_per_s(series, Window(now_us - 2 * block_us, now_us - block_us))
    later = steps_per_s(series, Window(now_us - block_us, now_us))
    return abs(later - earlier) <= tolerance * later


def _overlap(step: StepTime, window: Window) -> float:
    inside = min(step.end_us, window.end_us) - max(step.start_us, window.start_us)
    return max(inside, 0) / max(step.end_us - step.start_us, 1)


# Iterations of synchronous training: in pieces, until their mean is known well enough.


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


# How well a mean is known.


COVERAGE = 0.95


def half_width(values: Sequence[float]) -> float:
    """Return half of the 95 % confidence interval of the mean, over that mean (Student's t).

    Infinity of a single value. Values count as independent: of one visit it is the scatter within
    that visit, and says nothing of how far another visit's mean is.
    """
    if len(values) < 2:
        return inf
    from scipy.stats import t  # takes a second to import, and few who import this measure

    quantile = float(t.ppf(0.5 + COVERAGE / 2, len(values) - 1))
    return quantile * stdev(values) / sqrt(len(values)) / fmean(values)
