"""What a simulation yields: steps, what ran when, and throughput."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.async_sgd.graph import Resource
from warehouse.records import BadInput


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


# Throughput of a synthetic trace, by the estimator that measured throughput uses.


def steps_per_s(trace: Trace, warm_up_steps: int) -> float:
    """Return the steps per second of all workers while all of them are stepping.

    The window opens when the last worker has left its first `warm_up_steps` steps behind and
    closes when the first worker finishes its last one; a step counts by the fraction of it inside.

    Raises:
        BadInput: no such window, or steps that take no time.
    """
    starts_s, ends_s = trace.step_starts_s, trace.step_ends_s
    steps = int((~np.isnan(ends_s)).sum(axis=1).min())
    if not 0 <= warm_up_steps < steps:
        raise BadInput(
            f"throughput: expected a warm-up of 0 to {steps - 1} steps of {steps}, "
            f"found {warm_up_steps}"
        )
    opens_s = float(starts_s[:, warm_up_steps].max())
    closes_s = float(np.nanmax(ends_s, axis=1).min())
    lengths_s = ends_s - starts_s
    if not np.nanmin(lengths_s) > 0:
        raise BadInput("throughput: expected steps that take time, found one of 0 s; profile again")
    if closes_s <= opens_s:
        raise BadInput(
            f"throughput: a worker finished all {steps} steps before another had left "
            f"{warm_up_steps} behind; simulate more steps per worker"
        )
    inside_s = np.clip(np.minimum(ends_s, closes_s) - np.maximum(starts_s, opens_s), 0.0, None)
    return float(np.nansum(inside_s / lengths_s)) / (closes_s - opens_s)
