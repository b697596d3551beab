"""What a study may rent, at which prices, and what that will cost: asked before it is rented."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from profilers.clusters.fleet import RENTED, fleet
from profilers.probe import Need
from profilers.renting.allowance import (
    BOOT_HOURS,
    VARIABLE,
    Allowance,
    Rate,
    allowed,
    checked_cap,
    current,
)
from studies.needs import expected_s, nodes_of, starts
from studies.rented import land_book
from warehouse.records import Backend, BadInput, Market
from warehouse.warehouse import Warehouse

PROVIDER = "aws"


@dataclass(frozen=True)
class Estimate:
    """What measuring is expected to cost.

    Attributes:
        usd: expected: seconds of the plan times prices, with what instances take to come up.
        instance_hours: the hours of all instances together.
        sources: where prices were read.
    """

    usd: float
    instance_hours: float
    sources: tuple[str, ...]

    def in_words(self, cap_usd: float) -> str:
        """Return the estimate, and what it costs at worst."""
        return (
            f"renting costs about ${self.usd:.2f} ({self.instance_hours:.1f} hours of instances, "
            f"prices of {'; '.join(self.sources) or 'nothing'}), and at most ${cap_usd:g}, even if "
            "no instance can be ended before it ends by itself"
        )


def check_capped(backend: Backend, max_usd: float | None) -> None:
    """Refuse to rent without a cap, and a cap where nothing is rented.

    Raises:
        BadInput: --max-usd is missing, is no amount, or has nothing to cap.
    """
    if max_usd is not None:
        checked_cap(max_usd)
    if backend in RENTED and max_usd is None:
        raise BadInput(
            f"backend {backend} rents machines: say with --max-usd what they may cost at most, all "
            "together; there is no default"
        )
    if backend not in RENTED and max_usd is not None:
        raise BadInput(f"--max-usd: backend {backend} rents nothing; leave it out")


def allowance(
    home: Path,
    cap_usd: float,
    types: Collection[str],
    account: str | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Allowance:
    """Return what a command may rent, at the newest prices that are known of these node types.

    Args:
        home: its history has the prices.
        cap_usd: what all of it may cost.
        types: node types that may be rented, beside those of the fleet file.
        account: whose cap it is; None: a new one.
        say: told what happens to what is rented.
    """
    listed = fleet()
    known = rates(Warehouse(home), listed.launch().region, {*types, *listed.node_types})
    fresh = Allowance(checked_cap(cap_usd), known, say=say)
    return fresh if account is None else replace(fresh, account=account)


@contextmanager
def renting(
    home: Path, backend: Backend, cap_usd: float | None, account: str, say: Callable[[str], None]
) -> Iterator[None]:
    """Let what runs in the block rent, if its backend does; land what was rented after it.

    What the command allows counts, if this process is a command's. Else there is the cap that is
    given, or that of `STEPCAST_MAX_USD`.

    Raises:
        BadInput: nobody said what it may cost.
    """
    if backend not in RENTED or current() is not None:
        yield
        return
    cap_usd = cap_usd if cap_usd is not None else _of_environment()
    if cap_usd is None:
        raise BadInput(
            f"backend {backend} rents machines, and nobody said what they may cost: set {VARIABLE} "
            "for what Dagster runs, or --max-usd of `stepcast fleet add`"
        )
    with allowed(allowance(home, cap_usd, (), account, say)):
        try:
            yield
        finally:
            land_book(home)


def _of_environment() -> float | None:
    said = os.environ.get(VARIABLE, "")
    if not said:
        return None
    try:
        return checked_cap(float(said), VARIABLE)
    except ValueError:
        raise BadInput(f"{VARIABLE}: expected US dollars, found {said!r:.60}") from None


def rates(
    warehouse: Warehouse, region: str, types: Iterable[str]
) -> Mapping[tuple[str, Market], Rate]:
    """Return prices of node types in a region: observed ones, else what a paper prints.

    The highest bid for spot instances is the price on demand, beyond which nobody would pay.
    """
    prices = warehouse.query("prices_as_of").filter(provider=PROVIDER)
    found: dict[tuple[str, Market], Rate] = {}
    for name in types:
        mine = prices.filter(node_type=name)
        seen = mine.filter("observed", region=region)
        printed = mine.filter(~pl.col("observed"))
        on_demand = _dearest(seen, "on_demand") or _dearest(printed, "on_demand")
        spot = _dearest(seen, "spot")
        if on_demand is not None:
            found[name, "on_demand"] = on_demand
        if spot is not None:
            most_usd = max(spot.usd_per_hour, on_demand.usd_per_hour if on_demand else 0.0)
            found[name, "spot"] = Rate(spot.usd_per_hour, most_usd, spot.source)
        elif on_demand is not None:
            found[name, "spot"] = on_demand
    return found


def estimate(missing: Collection[Need], allowed: Allowance) -> Estimate:
    """Return what measuring needs is expected to cost, each start on instances of its own.

    Raises:
        BadInput: the price of a node type is not known.
    """
    how = fleet().launch()
    market: Market = "spot" if how.spot else "on_demand"
    usd = hours = 0.0
    sources: dict[str, None] = {}
    for start in starts(list(missing)):
        each_hours = expected_s(start) / 3600 + BOOT_HOURS
        for group in nodes_of(start):
            rate = allowed.rate(group.node_type, market)
            sources[rate.source] = None
            hours += group.count * each_hours
            usd += group.count * each_hours * (rate.usd_per_hour + how.volume.usd_per_hour)
    return Estimate(usd, hours, tuple(sources))


def _dearest(prices: pl.DataFrame, market: Market) -> Rate | None:
    of = prices.filter(market=market).sort("usd_per_hour", descending=True)
    if of.is_empty():
        return None
    first = of.row(0, named=True)
    return Rate(first["usd_per_hour"], first["usd_per_hour"], first["source"])
