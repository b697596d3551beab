"""From the rows of link probes to what a simulation needs to know of links."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt
from statistics import fmean

import polars as pl

from models.async_sgd.contention import measured_sharing
from models.async_sgd.measured_sharing import MeasuredSharing
from models.async_sgd.parameters import LinkProfile
from models.profiled_run import by_link_speed, single_flow_Bps


def link_profiles(
    runs: pl.DataFrame, links: pl.DataFrame, contention: pl.DataFrame | None
) -> Iterator[LinkProfile]:
    """Yield one for each speed that links were shaped to, None for unshaped ones.

    Args:
        runs: table run, whose config has the speeds.
        links: table link.
        contention: table contention of one type of worker.

    Raises:
        BadInput: a speed without a trial of a single flow.
    """
    shared = {} if contention is None else by_link_speed(runs, contention)
    for link_mbps, rows in by_link_speed(runs, links).items():
        probed = shared.get(link_mbps)
        down, up = (_Direction.of(rows, probed, one) for one in ("downlink", "uplink"))
        yield LinkProfile(
            link_mbps=link_mbps,
            downlink_Bps=down.speed_Bps,
            uplink_Bps=up.speed_Bps,
            downlink_spread=down.spread,
            uplink_spread=up.spread,
            downlink_measured=down.measured,
            uplink_measured=up.measured,
            run_ids=tuple(sorted({*rows["run_id"], *([] if probed is None else probed["run_id"])})),
        )


@dataclass(frozen=True)
class _Direction:
    speed_Bps: float
    spread: float
    measured: MeasuredSharing | None

    @classmethod
    def of(cls, links: pl.DataFrame, probed: pl.DataFrame | None, direction: str) -> "_Direction":
        speed_Bps = single_flow_Bps(links, direction)
        measured = None if probed is None else measured_sharing(probed, direction, speed_Bps)
        return cls(speed_Bps, _spread(links, direction), measured)


def _spread(links: pl.DataFrame, direction: str) -> float:
    """Root mean square, over trials of several flows, of the sd of their log bandwidths."""
    several = links.filter(
        pl.col("flows") > 1, pl.col("direction") == direction, pl.col("bandwidth_Bps") > 0
    )
    trials = several.group_by("run_id", "flows", "trial").agg(
        pl.col("bandwidth_Bps").log().var().alias("variance")
    )
    variances = trials["variance"].drop_nulls()
    return sqrt(fmean(variances)) if len(variances) else 0.0
