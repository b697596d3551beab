"""What can be rented as of a date, what is proposed of it, and what none beats in all."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar, get_args

import polars as pl
from pydantic import Field

from models.choice.limits import Job
from warehouse import limits
from warehouse.fields import Usd, nearest_names
from warehouse.records import BadInput, Market, Price, Record, Scenario

Markets = Literal["spot", "on_demand", "any"]


class Offer(Record):
    """Up to `capacity` nodes of one type at one price.

    Source: CAPS[i] and P[i] of Srift's section 4.4.
    """

    node_type: str
    market: Market = "on_demand"
    usd_per_hour: Usd
    capacity: int = Field(ge=0, le=limits.NODES)


def preferred_prices(prices: pl.DataFrame) -> list[Price]:
    """Return prices of query prices_as_of: those that papers print only where none was observed."""
    seen = prices.filter(pl.col("observed"))
    others = prices.filter(~pl.col("observed")).join(seen, on=["node_type", "market"], how="anti")
    rows = [*seen.to_dicts(), *others.to_dicts()]
    return [Price.model_validate({name: row[name] for name in Price.model_fields}) for row in rows]


def prices_in_one_region(
    prices: Sequence[Price], capacity: Mapping[str, int], market: Markets, as_of: datetime
) -> list[Price]:
    """Return the price of each node type on each market that has one.

    Nodes of one cluster are in one region: of those that have all node types, the one in which the
    whole capacity costs least. Of a region's zones the cheapest counts.

    Args:
        prices: of `preferred_prices`.
        capacity: how many nodes of each type there are.
        market: which market.
        as_of: the time of these prices, for messages.

    Raises:
        BadInput: a node type without a price, or no region has all of them.
    """
    markets: tuple[Market, ...] = get_args(Market) if market == "any" else (market,)
    matching = [
        price for price in prices if price.node_type in capacity and price.market in markets
    ]
    for node_type in capacity:
        if not any(price.node_type == node_type for price in matching):
            wanted = market.replace("_", "-") if market != "any" else "spot or on-demand"
            near = nearest_names(node_type, {price.node_type for price in prices})
            hint = f"; did you mean {', '.join(near)}?" if near and node_type not in near else ";"
            raise BadInput(
                f"no {wanted} price of node type {node_type!r} as of {as_of:%Y-%m-%d} is known"
                f"{hint} `stepcast prices collect --type {node_type}` asks AWS, and `stepcast "
                "import csv node_prices.csv` takes your own (docs/prices.md)"
            )
    candidates = [
        region_prices
        for region in dict.fromkeys(price.region for price in matching)
        if (region_prices := _in_region(region, matching, capacity)) is not None
    ]
    if not candidates:
        raise BadInput(
            f"no region has prices of {', '.join(capacity)} together as of {as_of:%Y-%m-%d}; leave "
            "one out of --capacity, or import prices of another region"
        )
    return min(candidates, key=lambda region_prices: _usd_per_hour(region_prices, capacity))


def _usd_per_hour(prices: Iterable[Price], capacity: Mapping[str, int]) -> float:
    """Return what the whole capacity costs, each type on its cheapest market."""
    cheapest: dict[str, float] = {}
    for price in prices:
        known = cheapest.get(price.node_type, price.usd_per_hour)
        cheapest[price.node_type] = min(known, price.usd_per_hour)
    return sum(usd * capacity[node_type] for node_type, usd in cheapest.items())


def _in_region(
    region: str | None, prices: Iterable[Price], capacity: Mapping[str, int]
) -> list[Price] | None:
    """Return the prices of a region; None if it lacks a node type. No region: in all of them."""
    cheapest: dict[tuple[str, Market], Price] = {}
    for price in sorted(prices, key=lambda price: price.usd_per_hour, reverse=True):
        if price.region in (region, None):
            cheapest[price.node_type, price.market] = price
    if {node_type for node_type, _ in cheapest} != set(capacity):
        return None
    return [price for _, price in sorted(cheapest.items())]


# What a job is expected to take and cost.


class Span(Record):
    """A forecast, and the ends of its interval; None: the system has none."""

    value: float
    low: float | None = None
    high: float | None = None

    def times(self, factor: float) -> "Span":
        """Return the same in another unit."""
        ends = (None if end is None else end * factor for end in (self.low, self.high))
        return Span(value=self.value * factor, low=next(ends), high=next(ends))


# What a system proposes that searches by itself; others forecast it too.


@dataclass(frozen=True)
class ProposedNodes:
    """So many nodes of a type, and the batch of each of their devices."""

    count: int
    node_type: str
    batch_size: int

    @property
    def label(self) -> str:
        """4 emu.avx512.s15@16, as studies name a part of a mix."""
        return f"{self.count} {self.node_type}@{self.batch_size}"


Proposal = tuple[ProposedNodes, ...]
"""Nodes that train together by all-reduces of PyTorch: each type once."""
Search = Callable[[Any, Scenario, Job, Sequence[Offer]], Sequence[Proposal]]
"""Proposes nodes for a job, of offers on one market.

It gets the fitted system, and a scenario of one node of each type on offer: network, images, links
and devices of a node are those of the job. What it knows nothing of, it leaves out.
"""


# What more money buys: the options than which none is both faster and cheaper.


T = TypeVar("T")


def pareto_front(options: Iterable[T], key: Callable[[T], tuple[float, ...]]) -> list[T]:
    """Return the Pareto front of time against cost, fastest first, cheapest last.

    Args:
        options: what there is, in any order.
        key: time and cost of an option in any unit, then what decides between equals: the least.
    """
    front: list[T] = []
    least = None
    for option in sorted(options, key=key):
        cost = key(option)[1]
        if least is None or cost < least:
            front.append(option)
            least = cost
    return front
