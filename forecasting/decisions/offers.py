"""What the nodes of a job cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

import polars as pl

from forecasting.costs import nodes_by_type
from forecasting.decisions.question import JobQuestion
from models.choice.offers import Markets, preferred_prices, prices_in_one_region
from models.choice.overheads import PREEMPTIONS_PER_NODE_HOUR
from models.gpu_step.device import device_of_node
from profilers.clusters.node_types import GPU, node_types
from warehouse.records import BadInput, Market, Price, Scenario
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class RegionOffers:
    """Prices of one region, and how often any spot node is taken away an hour."""

    prices: Sequence[Price]
    preemptions_per_node_hour: float

    @property
    def markets(self) -> tuple[Market, ...]:
        """The markets that have prices."""
        known = {price.market for price in self.prices}
        return tuple(market for market in get_args(Market) if market in known)

    def usd_per_hour(self, scenario: Scenario, market: Market) -> float | None:
        """Return what all nodes of a scenario cost; None where a type has no price there."""
        nodes = nodes_by_type(scenario)
        usd = {each.node_type: each.usd_per_hour for each in self.prices if each.market == market}
        if not nodes.keys() <= usd.keys():
            return None
        return sum(usd[name] * count for name, count in nodes.items())

    def preemptions_per_hour(self, scenario: Scenario, market: Market) -> float:
        """Return how often any node of a scenario is taken away."""
        if market != "spot":
            return 0.0
        return self.preemptions_per_node_hour * sum(nodes_by_type(scenario).values())


@dataclass(frozen=True)
class GpuOffers:
    """All node types with GPUs that can be rented, by what anybody has observed.

    Attributes:
        capacity: how many nodes of each type there may be.
        left_out: node types that are not on offer, with the reason.
        prices: rows of query prices_as_of, without what papers print.
    """

    capacity: Mapping[str, int]
    left_out: Mapping[str, str]
    prices: pl.DataFrame


def known_prices(warehouse: Warehouse, as_of: datetime, region: str | None) -> pl.DataFrame:
    """Return rows of query prices_as_of, those of a region with those that hold in any.

    Raises:
        BadInput: the region has no price.
    """
    known = warehouse.query("prices_as_of", as_of=as_of.isoformat())
    regions = known["region"].drop_nulls().unique().sort().to_list()
    if region not in (None, *regions):
        raise BadInput(
            f"--region {region}: no price of it had been observed by {as_of:%Y-%m-%d}; known: "
            f"{', '.join(regions) or 'none'}. `stepcast prices collect --region` asks AWS"
        )
    if region is None:
        return known
    return known.filter(pl.col("region").is_null() | (pl.col("region") == region))


def read_gpu_offers(
    warehouse: Warehouse, market: Markets, as_of: datetime, most: int, region: str | None = None
) -> GpuOffers:
    """Return every node type with GPUs that has a data sheet, and a price where most of them do.

    Raises:
        BadInput: none has a price.
    """
    sheets = {
        name: device_of_node(name) is not None
        for name, kind in node_types().items()
        if kind.gpu is not None
    }
    known = known_prices(warehouse, as_of, region).filter("observed")
    if market != "any":
        known = known.filter(market=market)
    known = known.filter(pl.col("node_type").is_in([name for name in sheets if sheets[name]]))
    if known.is_empty():
        wanted = "" if market == "any" else f"{market.replace('_', '-')} "
        raise BadInput(
            f"no {wanted}price of a node type with GPUs had been observed by {as_of:%Y-%m-%d}: "
            "`stepcast load public` brings those of a day on demand, `stepcast prices "
            "collect` asks AWS; or give --capacity TYPE=COUNT"
        )
    region, priced = _widest(known)
    left_out = {
        name: "no data sheet of its GPU" if not has_sheet else f"no price in {region}"
        for name, has_sheet in sheets.items()
        if name not in priced and not name.startswith(GPU)
    }
    return GpuOffers(
        dict.fromkeys((name for name in sheets if name in priced), most), left_out, known
    )


def _widest(prices: pl.DataFrame) -> tuple[str, set[str]]:
    """Return the region with prices of most node types, the first by name of equals, and these."""
    anywhere = set(prices.filter(pl.col("region").is_null())["node_type"])
    by_region = {
        region: anywhere | set(prices.filter(region=region)["node_type"])
        for region in sorted(prices["region"].drop_nulls().unique())
    }
    if not by_region:
        return "any region", anywhere
    region = max(by_region, key=lambda name: len(by_region[name]))
    return region, by_region[region]


def region_offers(
    question: JobQuestion,
    capacity: Mapping[str, int],
    market: Markets,
    as_of: datetime,
    known: pl.DataFrame,
) -> RegionOffers:
    """Return the prices of all node types, of the region where they cost least together.

    `known`: rows of query prices_as_of.

    Raises:
        BadInput: a type has no price.
    """
    wanted = dict(capacity)
    if question.server is not None:
        wanted[question.server] = wanted.get(question.server, 0) + question.servers
    prices = prices_in_one_region(preferred_prices(known), wanted, market, as_of)
    given = question.preemptions_per_node_hour
    return RegionOffers(prices, PREEMPTIONS_PER_NODE_HOUR if given is None else given)
