"""Rows of the table of `stepcast bench gpu`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from models.gpu_step.gpu_time import roofline_us
from models.gpu_step.judged_steps import Forecasts
from models.gpu_step.measurements import MeasuredPasses, MeasuredStep


@dataclass(frozen=True)
class Figure:
    """A row of the table: `error` and `beside` are means of absolute errors, percent.

    `floor` is how far repeated measurement of the same is apart; `beside` is another's error.
    """

    judged: str
    n: int
    error: float
    median: float
    largest: float
    goal: str
    floor: float | None = None
    beside: str = ""


def figure(
    judged: str,
    errors: Sequence[float],
    goal: str = "",
    floor: float | None = None,
    beside: str = "",
) -> Figure:
    """Return a row of signed relative errors."""
    sizes = 100 * np.abs(np.array(errors))
    mean, median, largest = float(sizes.mean()), float(np.median(sizes)), float(sizes.max())
    return Figure(judged, len(errors), mean, median, largest, goal, floor, beside)


def mean(errors: Iterable[float]) -> float:
    return 100 * float(np.mean(np.abs(list(errors))))


def roofline(step: MeasuredStep) -> float:
    us = roofline_us(step.work.works, [step.device])[0]
    return float(us @ step.work.calls)


def beside_roofline(judged: str, forecasts: Forecasts, goal: str = "", others: str = "") -> Figure:
    """Return how wrong forecasts of passes are, beside peaks and bandwidth alone, and `others`."""
    plain = [_passes_roofline(passes) / passes.passes_us - 1 for passes, _ in forecasts]
    errors = [us / passes.passes_us - 1 for passes, us in forecasts]
    return figure(judged, errors, goal, beside=f"roofline {mean(plain):.1f} %{others}")


def _passes_roofline(passes: MeasuredPasses) -> float:
    return float(roofline_us(passes.work.works, [passes.device])[0] @ passes.work.calls)
