"""What a simulation yields: steps, what ran when, throughput, and when something was in use."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl
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


# Throughput while workers that started together drift apart (Fig. 16).


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


# When something was in use: intervals that touch or overlap as one stretch.


def union_of_intervals(
    rows: pl.DataFrame, keys: Sequence[str], start: str, end: str
) -> pl.DataFrame:
    """Return the union of intervals for each combination of `keys`, sorted by these and time.

    Args:
        rows: the intervals, any other columns are left out.
        keys: columns that name what is in use.
        start: column of their starts.
        end: column of their ends.
    """
    ordered = rows.select(*keys, start, end).sort(*keys, start)
    so_far = pl.col(end).cum_max().shift(1).over(keys)
    begins = (pl.col(start) > so_far).fill_null(True)
    return (
        ordered.with_columns(stretch=begins.cum_sum().over(keys))
        .group_by(*keys, "stretch", maintain_order=True)
        .agg(pl.col(start).min(), pl.col(end).max())
        .drop("stretch")
    )


def busy_intervals(operations: pl.DataFrame, timings: pl.DataFrame, steps: int) -> pl.DataFrame:
    """Return when each resource was at work in the first traced steps, laid end to end (Fig. 4).

    Args:
        operations: table operation of one run.
        timings: table timing of that run.
        steps: how many.

    Returns:
        step, resource, start_us and end_us since the start of the first step. A step lasts until
        its last operation has ended.
    """
    first = timings["step"].unique().sort().head(steps)
    timed = timings.filter(pl.col("step").is_in(first.implode())).join(
        operations.select("operation", "resource"), on="operation"
    )
    ends = timed.with_columns(end_us=pl.col("start_us") + pl.col("duration_us"))
    lengths = ends.group_by("step").agg(length_us=pl.col("end_us").max()).sort("step")
    offsets = lengths.with_columns(offset_us=pl.col("length_us").cum_sum() - pl.col("length_us"))
    shifted = ends.join(offsets, on="step").with_columns(
        pl.col("start_us") + pl.col("offset_us"), pl.col("end_us") + pl.col("offset_us")
    )
    return union_of_intervals(shifted, ["step", "resource"], "start_us", "end_us")
