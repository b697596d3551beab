"""How often spot nodes are taken away, as the history of their prices has it.

A node is taken away when its spot price rises above the price on demand: whoever bids that, and
nobody bids more, loses it then. AWS's prices have followed demand slowly since December 2017, and
nodes are taken for want of capacity too, which no price shows. So a rate is at least the default.
"""

from datetime import datetime
from itertools import pairwise
from math import log

import polars as pl

from warehouse.records import Price
from warehouse.warehouse import Warehouse

_HOURS_A_MONTH = 730.0
DEFAULT_PER_NODE_HOUR = -log(1 - 0.2) / _HOURS_A_MONTH
"""A fifth of all nodes within a month: the last but one border of AWS's Spot Instance Advisor,
whose highest class is "> 20 %"."""


def preemptions_per_node_hour(
    warehouse: Warehouse, price: Price, on_demand_usd: float | None, as_of: datetime
) -> tuple[float, str]:
    """Return how often a spot node is taken away, with where that is from.

    Args:
        warehouse: the history.
        price: of the node on the spot market; its place counts.
        on_demand_usd: what it costs an hour on demand there; None: not known.
        as_of: prices that were observed later, or that nobody had seen by then, do not count.
    """
    prices = warehouse.query("price_history", node_type=price.node_type, market="spot")
    there = prices.filter(
        pl.col("region").eq_missing(pl.lit(price.region, pl.String)),
        pl.col("zone").eq_missing(pl.lit(price.zone, pl.String)),
        pl.col("known_from") <= as_of,
        ~pl.col("backend").is_in(["published", "declared"]),
    ).sort("observed_at")
    if on_demand_usd is None or there.height < 2:
        return DEFAULT_PER_NODE_HOUR, "default: a fifth of all nodes a month"
    above = [usd > on_demand_usd for usd in there["usd_per_hour"].to_list()]
    times = there["observed_at"].to_list()
    return rate(above, (times[-1] - times[0]).total_seconds() / 3600)


def rate(above: list[bool], hours: float) -> tuple[float, str]:
    """Return how often a price rose above another one an hour, and from how many hours.

    Args:
        above: whether it was, observation by observation.
        hours: from the first to the last.
    """
    rises = sum(later and not earlier for earlier, later in pairwise(above))
    found = rises / hours if hours > 0 else 0.0
    basis = f"{rises} rises above the price on demand in {hours:.0f} h"
    if found < DEFAULT_PER_NODE_HOUR:
        return DEFAULT_PER_NODE_HOUR, f"{basis}; at least a fifth of all nodes a month"
    return found, basis
