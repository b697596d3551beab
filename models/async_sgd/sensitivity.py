"""Throughput while workers that started together drift apart (Fig. 16)."""

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.async_sgd.synthetic_trace import Trace

CONVERGENCE_SCHEMA = {"step": pl.Int32, "steps_per_s": pl.Float64}


def measured_throughput(steps: pl.DataFrame, window: int) -> pl.DataFrame:
    """Return the throughput out of the barrier of a measured run; see `throughput_of_starts`.

    Args:
        steps: table step of one run: worker, step and start_us. Workers that ended sooner than
            others decide how far it goes.
        window: steps of each worker that are averaged.
    """
    by_worker = steps.sort("worker", "step").partition_by("worker", maintain_order=True)
    count = min((rows.height for rows in by_worker), default=0)
    starts_s = np.array([rows["start_us"].to_numpy()[:count] / 1e6 for rows in by_worker])
    return throughput_of_starts(starts_s.reshape(len(by_worker), count), window)


def simulated_throughput(trace: Trace, window: int) -> pl.DataFrame:
    """Return the throughput of a synthetic trace, whose workers start at once."""
    return throughput_of_starts(trace.step_starts_s, window)


def throughput_of_starts(starts_s: NDArray[np.float64], window: int) -> pl.DataFrame:
    """Return the steps per second of all workers, by their number of steps since the start.

    Args:
        starts_s: when each step started, seconds; shape (workers, steps).
        window: steps of each worker that are averaged.

    Returns:
        step (the first of a window) and steps_per_s: the sum over workers of `window` divided by
        the time from the start of that step to the start of the one `window` steps later.
        Windows do not overlap; there is no row where there are not enough steps.
    """
    firsts = starts_s[:, ::window]
    if firsts.shape[1] < 2:
        return pl.DataFrame(schema=CONVERGENCE_SCHEMA)
    steps_per_s = (window / np.diff(firsts, axis=1)).sum(axis=0)
    rows = {"step": np.arange(len(steps_per_s)) * window, "steps_per_s": steps_per_s}
    return pl.DataFrame(rows, schema=CONVERGENCE_SCHEMA)
