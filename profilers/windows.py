"""How long to measure: windows until their mean is known, and the throughput in them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, sqrt
from statistics import fmean, stdev
from typing import Self

from pydantic import Field, model_validator

from profilers.nodes.tf_jobs import StepTime
from warehouse.fields import Repeats, Seconds
from warehouse.records import Record

COVERAGE = 0.95


class Windows(Record):
    """So many `windows` of `window_s` seconds or, with `interval`, until their mean is known.

    Known is once its 95 % confidence interval is within `interval` of it to both sides (0.02: 2 %),
    or with `most_windows`; never with fewer than `windows`.
    """

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

    def are_enough(self, values: Sequence[float]) -> bool:
        """Tell whether that is so after windows with these values."""
        if len(values) < self.windows:
            return False
        if self.interval is None or len(values) >= (self.most_windows or self.windows):
            return True
        return half_width(values) <= self.interval


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
