"""What can be rented: prices as of a date, in one region, and how many nodes there are."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, get_args

import polars as pl
from pydantic import Field

from warehouse import limits
from warehouse.amounts import Usd
from warehouse.names import nearest
from warehouse.records import BadInput, Market, Price, Record

Markets = Literal["spot", "on_demand", "any"]


class Offer(Record):
    """Up to `capacity` nodes of one type at one price.

    Source: CAPS[i] and P[i] of Srift's section 4.4.
    """

    node_type: str
    market: Market = "on_demand"
    usd_per_hour: Usd
    capacity: int = Field(ge=0, le=limits.NODES)


class NodeOffer(Offer):
    """The same of nodes that are known to have so many devices each."""

    devices: int = Field(default=1, ge=1)


def offers(
    prices: Iterable[Price], capacity: Mapping[str, int], devices: Mapping[str, int]
) -> list[NodeOffer]:
    """Return an offer for each price.

    Args:
        prices: of node types and markets, each once.
        capacity: how many nodes of each type there are.
        devices: of a node of each type; one of those that are not named.
    """
    return [
        NodeOffer(
            node_type=one.node_type,
            market=one.market,
            usd_per_hour=one.usd_per_hour,
            capacity=capacity[one.node_type],
            devices=devices.get(one.node_type, 1),
        )
        for one in prices
    ]


def prices_in_one_region(
    prices: pl.DataFrame, capacity: Mapping[str, int], market: Markets, as_of: datetime
) -> list[Price]:
    """Return the price of each node type on each market that has one.

    Nodes of one cluster are in one region: of those that have all node types, the one in which the
    whole capacity costs least. Of a region's zones the cheapest counts, and what was observed
    before what a paper prints.

    Args:
        prices: query prices_as_of.
        capacity: how many nodes of each type there are.
        market: which market.
        as_of: the time of these prices, for messages.

    Raises:
        BadInput: a node type without a price, or no region has all of them.
    """
    markets: tuple[Market, ...] = get_args(Market) if market == "any" else (market,)
    known = [Price.model_validate(_price(row)) for row in _preferred(prices)]
    mine = [one for one in known if one.node_type in capacity and one.market in markets]
    for node_type in capacity:
        if not any(one.node_type == node_type for one in mine):
            wanted = market.replace("_", "-") if market != "any" else "spot or on-demand"
            near = nearest(node_type, {one.node_type for one in known})
            hint = f"; did you mean {', '.join(near)}?" if near and node_type not in near else ";"
            raise BadInput(
                f"no {wanted} price of node type {node_type!r} as of {as_of:%Y-%m-%d} is known"
                f"{hint} `stepcast prices collect --type {node_type}` asks AWS, and `stepcast "
                "import csv node_prices.csv` takes your own (docs/prices.md)"
            )
    found = [
        one
        for region in dict.fromkeys(one.region for one in mine)
        if (one := _in_region(region, mine, capacity)) is not None
    ]
    if not found:
        raise BadInput(
            f"no region has prices of {', '.join(capacity)} together as of {as_of:%Y-%m-%d}; leave "
            "one out of --capacity, or import prices of another region"
        )
    return min(found, key=lambda some: _usd_per_hour(some, capacity))


def _usd_per_hour(prices: Iterable[Price], capacity: Mapping[str, int]) -> float:
    """Return what the whole capacity costs, each type on its cheapest market."""
    cheapest: dict[str, float] = {}
    for one in prices:
        known = cheapest.get(one.node_type, one.usd_per_hour)
        cheapest[one.node_type] = min(known, one.usd_per_hour)
    return sum(usd * capacity[node_type] for node_type, usd in cheapest.items())


def _in_region(
    region: str | None, prices: Iterable[Price], capacity: Mapping[str, int]
) -> list[Price] | None:
    """Return the prices of a region; None if it lacks a node type. No region: in all of them."""
    cheapest: dict[tuple[str, Market], Price] = {}
    for price in sorted(prices, key=lambda one: one.usd_per_hour, reverse=True):
        if price.region in (region, None):
            cheapest[price.node_type, price.market] = price
    if {node_type for node_type, _ in cheapest} != set(capacity):
        return None
    return [price for _, price in sorted(cheapest.items())]


def _preferred(prices: pl.DataFrame) -> list[dict[str, object]]:
    """Return the rows of node types and markets that were observed, and others where none was."""
    seen = prices.filter(pl.col("observed"))
    others = prices.filter(~pl.col("observed")).join(seen, on=["node_type", "market"], how="anti")
    return [*seen.to_dicts(), *others.to_dicts()]


def _price(row: Mapping[str, object]) -> dict[str, object]:
    return {name: row[name] for name in Price.model_fields}
