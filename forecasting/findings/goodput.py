"""How much the links of a round carry."""

from pathlib import Path

import polars as pl

from studies import landed
from studies.rounds import Round


def goodput(round_: Round, landing: Path) -> pl.DataFrame | None:
    """Return the goodput of simultaneous flows, all flows together; None where no link was probed.

    Columns: link_mbps (that links are shaped to, NULL: not shaped), direction, flows, mbps (mean
    over trials) and trials.
    """
    rows = landed.rows(round_, landing, "links", "link")
    if not rows.width:
        return None
    totals = rows.group_by("link_mbps", "direction", "flows", "trial").agg(
        mbps=pl.col("bandwidth_Bps").sum() * 8e-6
    )
    return (
        totals.group_by("link_mbps", "direction", "flows")
        .agg(pl.col("mbps").mean(), trials=pl.len())
        .sort("link_mbps", "direction", "flows")
    )
