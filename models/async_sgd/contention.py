"""From the contention probe's rows to how simulated transfers share a link."""

from typing import Literal

import polars as pl

from models.async_sgd.measured_sharing import MeasuredSharing

MIN_SECONDS = 0.5
"""A number of transfers that was seen for less than this is left out."""


def measured_sharing(
    contention: pl.DataFrame, direction: str, link_Bps: float
) -> MeasuredSharing | None:
    """Return how n transfers share a direction of a link, None if that was not probed.

    Args:
        contention: rows of table contention of one link speed and worker type.
        direction: downlink or uplink.
        link_Bps: the goodput that efficiencies are relative to.

    Whether the longest or the shortest at it gets most is what the transfers of two say; shares of
    more are sorted accordingly, since places of like transfers differ by chance.
    """
    rows = (
        contention.filter(pl.col("direction") == direction)
        .group_by("flows", "place")
        .agg(pl.col("seconds").sum(), pl.col("bytes").sum())
        .filter(pl.col("seconds") >= MIN_SECONDS)
        .sort("flows", "place")
    )
    by_flows = {n: part for (n,), part in rows.group_by("flows", maintain_order=True)}
    complete = {n: part for n, part in by_flows.items() if part.height == n}
    if not complete:
        return None
    speeds_Bps = {n: part["bytes"] / part["seconds"] for n, part in complete.items()}
    two = speeds_Bps.get(2)
    largest_to: Literal["oldest", "newest"] = (
        "newest" if two is not None and two[0] < two[1] else "oldest"
    )
    return MeasuredSharing(
        flows=tuple(speeds_Bps),
        efficiency=tuple(each.sum() / link_Bps for each in speeds_Bps.values()),
        shares=tuple(
            tuple((each / each.sum()).sort(descending=True)) for each in speeds_Bps.values()
        ),
        largest_to=largest_to,
    )
