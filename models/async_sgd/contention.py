"""From the contention probe's rows to how simulated transfers share a link."""

from math import sqrt
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
        contention: rows of table contention of one link speed and worker type. Where `opposite` is
            NULL, nothing is taken to have gone the other way.
        direction: downlink or uplink.
        link_Bps: the goodput that efficiencies are relative to.

    A transfer that is alone gets all of the link: what keeps it from that, such as its worker's
    share of a processor, is in the profile already. What others keep from it that go the other way
    is what was seen of single transfers; those of several together are seen while the fewest do.

    Whether the longest or the shortest at it gets most is what the transfers of two say; shares of
    more are sorted accordingly, since places of like transfers differ by chance.
    """
    seen = contention.filter(pl.col("direction") == direction).with_columns(
        pl.col("opposite").fill_null(0)
    )
    rows = (
        _least_opposed(seen)
        .group_by("flows", "place")
        .agg(pl.sum("seconds", "bytes"))
        .sort("flows", "place")
    )
    by_flows = {n: part for (n,), part in rows.group_by("flows", maintain_order=True)}
    complete = {n: part for n, part in by_flows.items() if part.height == n > 1}
    if not complete:
        return None
    speeds_Bps = {1: pl.Series([link_Bps])}
    speeds_Bps |= {n: part["bytes"] / part["seconds"] for n, part in complete.items()}
    two = speeds_Bps.get(2)
    largest_to: Literal["oldest", "newest"] = (
        "newest" if two is not None and two[0] < two[1] else "oldest"
    )
    return MeasuredSharing(
        flows=tuple(speeds_Bps),
        efficiency=tuple(float(each.sum()) / link_Bps for each in speeds_Bps.values()),
        shares=tuple(
            tuple((each / each.sum()).sort(descending=True)) for each in speeds_Bps.values()
        ),
        largest_to=largest_to,
        opposed=_opposed(seen, link_Bps),
        spread=measured_spread(contention, direction),
    )


def _least_opposed(seen: pl.DataFrame) -> pl.DataFrame:
    """Keep of each number of flows those rows that the fewest went against, for long enough."""
    lasted = pl.col("seconds").sum().over("flows", "opposite", "place")
    enough = seen.filter(lasted >= MIN_SECONDS)
    return enough.filter(pl.col("opposite") == pl.col("opposite").min().over("flows"))


def _opposed(seen: pl.DataFrame, link_Bps: float) -> tuple[float, ...]:
    """Return what single transfers carried of the link while 0, 1, 2 … others went against them."""
    single = (
        seen.filter(pl.col("flows") == 1)
        .group_by("opposite")
        .agg(pl.sum("seconds", "bytes"))
        .filter(pl.col("seconds") >= MIN_SECONDS)
    )
    carried = {m: size_bytes / seconds for m, seconds, size_bytes in single.iter_rows()}
    found = [1.0]
    for m in range(1, max(carried, default=0) + 1):
        found.append(min(found[-1], carried.get(m, link_Bps) / link_Bps))
    return tuple(found)


def measured_spread(contention: pl.DataFrame, direction: str) -> float | None:
    """Return by how far weights differ from one transfer to the next, None if that was not probed.

    It is the standard deviation of the logarithm of weights under which the logarithms of n shares
    vary as they were seen to: by the factor 1 - 1/n less than the weights.
    """
    rows = contention.filter(
        pl.col("direction") == direction, pl.col("flows") > 1, pl.col("log_share_sd").is_not_null()
    )
    if rows.is_empty():
        return None
    n = pl.col("flows").cast(pl.Float64)
    variance = pl.col("log_share_sd") ** 2 * n / (n - 1)
    (mean,) = rows.select((variance * pl.col("seconds")).sum() / pl.col("seconds").sum()).row(0)
    return sqrt(mean)
