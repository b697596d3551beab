"""From the start and end of every worker's steps to throughput over windows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from profilers.nodes.tf_async_job import StepTime


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
