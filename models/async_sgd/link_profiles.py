"""From the rows of link probes to what a simulation needs to know of links."""

from collections.abc import Iterator
from math import sqrt
from statistics import fmean

import polars as pl

from models.async_sgd.contention import measured_sharing
from models.async_sgd.measured_sharing import MeasuredSharing
from models.async_sgd.parameters import LinkProfile
from models.profiled_run import single_flow_Bps


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
    shared = {} if contention is None else _by_speed(runs, contention)
    for link_mbps, rows in _by_speed(runs, links).items():
        probed = shared.get(link_mbps)
        downlink_Bps, uplink_Bps = (single_flow_Bps(rows, one) for one in ("downlink", "uplink"))
        yield LinkProfile(
            link_mbps=link_mbps,
            downlink_Bps=downlink_Bps,
            uplink_Bps=uplink_Bps,
            downlink_spread=_spread(rows, "downlink"),
            uplink_spread=_spread(rows, "uplink"),
            downlink_measured=_measured(probed, "downlink", downlink_Bps),
            uplink_measured=_measured(probed, "uplink", uplink_Bps),
            run_ids=tuple(sorted({*rows["run_id"], *([] if probed is None else probed["run_id"])})),
        )


def _measured(
    probed: pl.DataFrame | None, direction: str, link_Bps: float
) -> MeasuredSharing | None:
    return None if probed is None else measured_sharing(probed, direction, link_Bps)


def _by_speed(runs: pl.DataFrame, rows: pl.DataFrame) -> dict[float | None, pl.DataFrame]:
    """Return rows of link probes by the speed that the links of their run were shaped to."""
    speed = pl.col("config").str.json_path_match("$.link_mbps").cast(pl.Float64)
    probed = rows.join(runs.select("run_id", link_mbps=speed), on="run_id", how="left")
    groups = probed.group_by("link_mbps", maintain_order=True)
    return {link_mbps: of_speed for (link_mbps,), of_speed in groups}


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
