"""What the nodes of a job cost, and how often those on the spot market are taken away."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

import polars as pl

from forecasting.asked.costs import nodes_by_type
from forecasting.decisions.preemptions import preemptions_per_node_hour
from forecasting.decisions.question import Question
from models.choosing.offers import Markets, prices_in_one_region
from warehouse.records import Market, Price, Scenario
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Offered:
    """Prices of one region, and preemptions of a spot node an hour by type, with their basis."""

    prices: Sequence[Price]
    preemptions: Mapping[str, tuple[float, str]]

    @property
    def markets(self) -> tuple[Market, ...]:
        """The markets that have prices."""
        known = {one.market for one in self.prices}
        return tuple(one for one in get_args(Market) if one in known)

    def usd_per_hour(self, scenario: Scenario, market: Market) -> float | None:
        """Return what all nodes of a scenario cost; None where a type has no price there."""
        nodes = nodes_by_type(scenario)
        priced = {one.node_type for one in self.prices if one.market == market}
        if not nodes.keys() <= priced:
            return None
        return sum(self.usd_of(name, market) * count for name, count in nodes.items())

    def usd_of(self, node_type: str, market: Market) -> float:
        """Return what a node costs an hour on a market that has it."""
        return next(
            one.usd_per_hour
            for one in self.prices
            if (one.node_type, one.market) == (node_type, market)
        )

    def preemptions_per_hour(self, scenario: Scenario, market: Market) -> float:
        """Return how often any node of a scenario is taken away."""
        if market != "spot":
            return 0.0
        return sum(
            count * self.preemptions[name][0] for name, count in nodes_by_type(scenario).items()
        )


def offered(
    warehouse: Warehouse,
    question: Question,
    capacity: Mapping[str, int],
    market: Markets,
    as_of: datetime,
) -> Offered:
    """Return the prices of all node types, of the region where they cost least together.

    Raises:
        BadInput: a type has no price.
    """
    wanted = dict(capacity)
    if question.server is not None:
        wanted[question.server] = wanted.get(question.server, 0) + question.servers
    known = warehouse.query("prices_as_of", as_of=as_of.isoformat())
    prices = prices_in_one_region(known, wanted, market, as_of)
    return Offered(prices, dict(_preemptions(warehouse, question, prices, known, as_of)))


def _preemptions(
    warehouse: Warehouse,
    question: Question,
    prices: Sequence[Price],
    known: pl.DataFrame,
    as_of: datetime,
) -> Iterator[tuple[str, tuple[float, str]]]:
    for price in prices:
        if price.market != "spot":
            continue
        if (given := question.preemptions_per_node_hour) is not None:
            yield price.node_type, (given, "as given")
            continue
        bought = known.filter(
            pl.col("region").is_null() | pl.col("region").eq_missing(pl.lit(price.region)),
            node_type=price.node_type,
            market="on_demand",
        )
        usd = next(iter(bought.sort("observed", descending=True)["usd_per_hour"]), None)
        yield price.node_type, preemptions_per_node_hour(warehouse, price, usd, as_of)
