"""What a simulation yields: when steps started and ended, and what ran when."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.async_sgd.graph import Resource


class Interval(NamedTuple):
    """An operation, or one chunk of a transfer, that ran without a break."""

    worker: int
    step: int
    operation: int
    resource: Resource
    server: int
    start_s: float
    end_s: float
    size_bytes: float


@dataclass(frozen=True)
class Trace:
    """When steps started and ended: seconds, shape (workers, most steps of a worker).

    NaN stands for the steps that a worker does less than others.

    `events` counts the chunks that ran; `intervals` is empty unless they were asked for.
    """

    step_starts_s: NDArray[np.float64]
    step_ends_s: NDArray[np.float64]
    events: int
    intervals: tuple[Interval, ...]


def padded(times_s: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the times of each worker's steps as an array, NaN where it has fewer than others."""
    shape = len(times_s), max(map(len, times_s))
    found = np.full(shape, np.nan)
    for row, times in zip(found, times_s, strict=True):
        row[: len(times)] = times
    return found
