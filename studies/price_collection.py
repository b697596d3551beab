"""Prices and hardware as they are now: asked for by region, landed, loaded; never overwritten."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from profilers import clock
from profilers.clusters.fleet import VARIABLE, has_fleet, read_fleet
from profilers.clusters.node_types import GPU, fleet_types, keep_observed, shipped_node_types
from profilers.prices.aws import TYPE_NAME, own_region
from profilers.prices.offers import PROVIDER, RegionPrices, observe_prices
from warehouse.landing import land
from warehouse.loader import LoadReport
from warehouse.records import BadInput, ProbeFailed
from warehouse.warehouse import Warehouse

DAYS = 2.0
"""How far back spot prices go: a daily collection that is late leaves no gap."""
MOST_DAYS = 90.0
"""How far back AWS keeps them."""
MOST_TYPES = 200
"""Values that AWS takes in one filter."""


@dataclass(frozen=True)
class PriceCollection:
    """What was seen, by region, what could not be, and what the loader did with it."""

    seen: Mapping[str, RegionPrices]
    failed: Mapping[str, BadInput | ProbeFailed]
    report: LoadReport = field(repr=False)

    def rows(self, region: str, market: str) -> int:
        """Return how many prices of a market were seen in a region."""
        return self.seen[region].tables["price"].filter(pl.col("market") == market).height


def collect(
    warehouse: Warehouse,
    regions: Sequence[str] = (),
    types: Sequence[str] = (),
    days: float = DAYS,
    say: Callable[[str], None] = lambda _: None,
) -> PriceCollection:
    """Ask AWS for prices; each region lands as a run of its own, whole or not at all.

    A region that fails takes no other with it. Instance types that the catalogue lacks become node
    types of the home.

    Args:
        warehouse: the history.
        regions: of AWS; none: that of the fleet file, of AWS_DEFAULT_REGION, or of the profile.
        types: instance types, with * for any letters; none: `known_types`.
        days: how far back spot prices go.
        say: told what takes long.

    Raises:
        BadInput: nobody says which region, too many types or days, or every region fails: then
            the error of the first.
        ProbeFailed: every region fails.
    """
    names = sorted(set(types or known_types(warehouse)))
    if len(names) > MOST_TYPES:
        raise BadInput(f"expected at most {MOST_TYPES} --type, found {len(names)}; use * in them")
    if not 0 < days <= MOST_DAYS:
        raise BadInput(f"--days: expected above 0 and at most {MOST_DAYS:g}, found {days:g}")
    seen_at = clock.now()
    seen: dict[str, RegionPrices] = {}
    failed: dict[str, BadInput | ProbeFailed] = {}
    for region in dict.fromkeys(regions or default_regions()):
        say(f"ask AWS for prices in {region}")
        try:
            prices = observe_prices(region, names, days, seen_at)
            land(warehouse.landing, prices.run, None, prices.tables)
            seen[region] = prices
        except (BadInput, ProbeFailed) as error:
            failed[region] = error
    if not seen:
        raise next(iter(failed.values()))
    for region, prices in seen.items():
        keep_observed(prices.node_types, f"{region}, {seen_at:%Y-%m-%d}")
    return PriceCollection(seen, failed, warehouse.load())


def default_regions() -> tuple[str, ...]:
    """Return the region that this user's machines are in.

    Raises:
        BadInput: neither the fleet file nor AWS's own settings say.
    """
    launch = read_fleet().ec2 if has_fleet() else None
    region = own_region() if launch is None else launch.region
    if region is None:
        raise BadInput(
            "prices of which region? Name it with --region, AWS_DEFAULT_REGION, or the section "
            f"`ec2` of the fleet file ({VARIABLE})"
        )
    return (region,)


def known_types(warehouse: Warehouse) -> tuple[str, ...]:
    """Return names of instance types: the fleet file's, the papers', and the catalogue's."""
    printed = warehouse.query("node_types").filter(provider=PROVIDER)["node_type"]
    shipped = [
        name
        for name in shipped_node_types()
        if re.fullmatch(TYPE_NAME, name) and not name.startswith((GPU, "emu."))
    ]
    return (*fleet_types(), *printed, *shipped)
