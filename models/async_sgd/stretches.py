"""When something was in use: intervals that touch or overlap as one stretch."""

from collections.abc import Sequence

import polars as pl


def stretches(rows: pl.DataFrame, keys: Sequence[str], start: str, end: str) -> pl.DataFrame:
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


def busy(operations: pl.DataFrame, timings: pl.DataFrame, steps: int) -> pl.DataFrame:
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
    return stretches(shifted, ["step", "resource"], "start_us", "end_us")
