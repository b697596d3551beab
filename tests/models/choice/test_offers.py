"""Prices of one region: where both markets count, each type is on its cheaper one."""

from datetime import UTC, datetime

import polars as pl

from models.choice.offers import preferred_prices, prices_in_one_region

WHEN = datetime(2030, 1, 1, tzinfo=UTC)


def test_spot_nodes_do_not_make_their_region_dearer() -> None:
    """On demand they cost 3 everywhere; one region has spot nodes for 1 as well."""
    rows = [(None, "on_demand", 3.0, False), ("east", "spot", 1.0, True)]
    prices = pl.DataFrame(rows, ["region", "market", "usd_per_hour", "observed"], orient="row")
    known = prices.with_columns(
        provider=pl.lit("aws"),
        node_type=pl.lit("fast"),
        zone=pl.lit(None, pl.String),
        observed_at=pl.lit(WHEN),
        source=pl.lit("made up"),
    )
    found = prices_in_one_region(preferred_prices(known), {"fast": 2}, "any", WHEN)
    assert [(one.market, one.usd_per_hour) for one in found] == [("on_demand", 3.0), ("spot", 1.0)]
