"""What a simulation yields: when steps started and ended, and what ran when."""

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
