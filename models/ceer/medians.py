"""One time for all operations of a class (section IV-B, equations 3 and 4)."""

from collections.abc import Collection

import polars as pl

from models.ceer.parameters import Median


def median(rows: pl.DataFrame, types: Collection[str]) -> Median | None:
    """Return the median time over all operations of these types, DNNs and node types.

    Args:
        rows: as `models.ceer.observed.computing` returns them; a row counts as often as its
            operation is in a step.
        types: those of one class.

    Returns:
        None if there is no such operation.

    Source: Hafeez, Gandhi, Ceer, section IV-B.
    """
    found = rows.filter(pl.col("type").is_in(list(types))).sort("mean_us")
    if found.is_empty():
        return None
    # Half of all operations take this long or less.
    below = found["count"].cum_sum() >= found["count"].sum() / 2
    us = float(found["mean_us"].filter(below)[0])
    sums = found.group_by("dnn", "node_type", maintain_order=True).agg(
        pl.col("count").sum(), (pl.col("count") * pl.col("mean_us")).sum().alias("us")
    )
    relative = (sums["count"] * us - sums["us"]) / sums["us"].clip(1.0)
    error = float((relative**2).mean() or 0.0) ** 0.5  # type: ignore[arg-type]
    return Median(us=us, operations=max(round(found["count"].sum()), 1), error=error)
