"""Rows of the table of `stepcast bench gpu`."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from models.gpu_step.gpu_time import roofline_us
from models.gpu_step.judged_steps import JudgedStep
from models.gpu_step.measurements import MeasuredStep


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
    """Return a row of signed relative errors; of none, which no table shows, with zeros."""
    sizes = 100 * np.abs(np.array([*errors] or [0.0]))
    middle, median, largest = float(sizes.mean()), float(np.median(sizes)), float(sizes.max())
    return Figure(judged, len(errors), middle, median, largest, goal, floor, beside)


def mean(errors: Iterable[float]) -> float:
    """Return the mean size of relative errors, percent; of none 0."""
    return 100 * float(np.mean(np.abs([*errors] or [0.0])))


def step_figure(
    judged: str, steps: Sequence[JudgedStep], goal: str = "", others: str = ""
) -> Figure:
    """Return how wrong steps, or passes, are, beside peaks and bandwidth alone, and `others`.

    The floor is how far steps that were waited for, or measured again, are apart.
    """
    plain = mean(_roofline(each.measured) / each.measured.step_us - 1 for each in steps)
    beside = f"roofline {plain:.1f} %{others}"
    return figure(judged, step_errors(steps), goal, floor_of(steps), beside)


def floor_of(steps: Sequence[JudgedStep]) -> float | None:
    """Return how far repeated measurements are apart, percent; None: nothing was repeated."""
    repeated = [each.measured for each in steps if each.measured.synchronised_us]
    return mean(each.synchronised_us / each.step_us - 1 for each in repeated) if repeated else None


def gpu_figure(judged: str, steps: Sequence[JudgedStep], goal: str = "") -> Figure:
    """Return how wrong the GPU's time is of steps that were profiled, beside rooflines."""
    plain = [_roofline(each.measured) / us - 1 for each in steps if (us := each.measured.gpu_us)]
    return figure(judged, gpu_errors(steps), goal, beside=f"roofline {mean(plain):.1f} %")


def step_errors(steps: Sequence[JudgedStep]) -> list[float]:
    """Return relative errors of steps."""
    return [each.share for each in steps]


def gpu_errors(steps: Sequence[JudgedStep]) -> list[float]:
    """Return relative errors of the GPU's time of steps that were profiled."""
    return [each.step.gpu_us / us - 1 for each in steps if (us := each.measured.gpu_us)]


def _roofline(step: MeasuredStep) -> float:
    return float(roofline_us(step.work.works, [step.device])[0] @ step.work.calls)
