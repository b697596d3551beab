"""Renting for a study: at which prices and cost, what was rented, and ending what was left."""

import fcntl
import os
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import polars as pl

from profilers import clock
from profilers.clusters import owner
from profilers.clusters.fleet import RENTED, has_fleet, read_fleet
from profilers.probe import PlannedRun
from profilers.renting.book import (
    FOLDER,
    Book,
    Entries,
    Entry,
    InstanceEnd,
    LaunchIntent,
    LaunchRefusal,
    LaunchResult,
)
from profilers.renting.cap import (
    BOOT_HOURS,
    VARIABLE,
    Allowance,
    Rate,
    checked_cap,
    current_allowance,
    each_usd,
    use_allowance,
    worst_usd,
)
from profilers.renting.reaper import ReapReport, reap
from studies.planned_runs import expected_s, group_by_start, nodes_of
from studies.run_settings import with_origin
from warehouse.landing import land, landed_runs
from warehouse.records import Backend, BadInput, Market, Run
from warehouse.warehouse import Warehouse

PROVIDER = "aws"


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
    listed = read_fleet()
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
    if backend not in RENTED or current_allowance() is not None:
        yield
        return
    cap_usd = cap_usd if cap_usd is not None else _of_environment()
    if cap_usd is None:
        raise BadInput(
            f"backend {backend} rents machines, and nobody said what they may cost: set {VARIABLE} "
            "for what Dagster runs, or --max-usd of `stepcast fleet add`"
        )
    with use_allowance(allowance(home, cap_usd, (), account, say)):
        try:
            yield
        finally:
            land_book(home)


def _of_environment() -> float | None:
    text = os.environ.get(VARIABLE, "")
    if not text:
        return None
    try:
        return checked_cap(float(text), VARIABLE)
    except ValueError:
        raise BadInput(f"{VARIABLE}: expected US dollars, found {text!r:.60}") from None


def rates(
    warehouse: Warehouse, region: str, types: Iterable[str]
) -> Mapping[tuple[str, Market], Rate]:
    """Return prices of node types in a region: observed ones, else what a paper prints.

    The highest bid for spot instances is the price on demand, beyond which nobody would pay.
    """
    prices = warehouse.query("prices_as_of").filter(provider=PROVIDER)
    rates: dict[tuple[str, Market], Rate] = {}
    for name in types:
        of_type = prices.filter(node_type=name)
        seen = of_type.filter("observed", region=region)
        printed = of_type.filter(~pl.col("observed"))
        on_demand = _dearest(seen, "on_demand") or _dearest(printed, "on_demand")
        spot = _dearest(seen, "spot")
        if on_demand is not None:
            rates[name, "on_demand"] = on_demand
        if spot is not None:
            most_usd = max(spot.usd_per_hour, on_demand.usd_per_hour if on_demand else 0.0)
            rates[name, "spot"] = Rate(spot.usd_per_hour, most_usd, spot.source)
        elif on_demand is not None:
            rates[name, "spot"] = on_demand
    return rates


def estimate(
    missing: Collection[PlannedRun], allowed: Allowance, cap_usd: float | None = None
) -> str:
    """Say what measuring needs is expected to cost, each start on instances of its own.

    Seconds of the plan count, and what instances take to come up. With a cap it says what
    everything costs at worst.

    Raises:
        BadInput: the price of a node type is not known.
    """
    how = read_fleet().launch()
    market: Market = "spot" if how.spot else "on_demand"
    usd = hours = 0.0
    sources: dict[str, None] = {}
    for start in group_by_start(list(missing)):
        each_hours = expected_s(start) / 3600 + BOOT_HOURS
        for group in nodes_of(start):
            rate = allowed.rate(group.node_type, market)
            sources[rate.source] = None
            hours += group.count * each_hours
            usd += group.count * each_hours * (rate.usd_per_hour + how.volume.usd_per_hour)
    worst = ""
    if cap_usd is not None:
        worst = f", and at most ${cap_usd:g}, even if no instance ends before it does so by itself"
    return (
        f"renting costs about ${usd:.2f} ({hours:.1f} hours of instances, prices of "
        f"{'; '.join(sources) or 'nothing'}){worst}"
    )


def price_plan(home: Path, backend: Backend, missing: Collection[PlannedRun]) -> str | None:
    """Return what a plan would cost, in words, or why nobody knows; None: nothing is rented."""
    if backend not in RENTED or not missing:
        return None
    types = {group.node_type for need in missing for group in need.nodes}
    known = rates(Warehouse(home), read_fleet().launch().region, types)
    try:
        return estimate(missing, Allowance(0.0, known))
    except BadInput as error:
        return str(error)


def _dearest(prices: pl.DataFrame, market: Market) -> Rate | None:
    of = prices.filter(market=market).sort("usd_per_hour", descending=True)
    if of.is_empty():
        return None
    first = of.row(0, named=True)
    return Rate(first["usd_per_hour"], first["usd_per_hour"], first["source"])


# What was rented, in the history: each entry of the book lands once (probe `renting`).


PROBE, TABLE = "renting", "rented"


def land_book(home: Path) -> str | None:
    """Land what the book of a home has had since it last landed; return the run, if there is one.

    Raises:
        BadInput: the book cannot be read.
    """
    if not (home / FOLDER).exists():
        return None
    descriptor = owner.open_private_file(owner.private_folder(home / FOLDER) / "landing")
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        return _landed(home, Book(home / FOLDER).read())
    finally:
        os.close(descriptor)


def _landed(home: Path, entries: Entries) -> str | None:
    landing, of = home / "landing", owner.token()
    earlier = (
        run.config
        for run in landed_runs(landing)
        if (run.probe, run.config.get("home")) == (PROBE, of)
    )
    ends = (int(str(config["first"])) + int(str(config["entries"])) for config in earlier)
    first = max(ends, default=0)
    fresh = entries.all[first:]
    rows = [
        {"entry": first + place, "kind": entry.kind, "written_at": entry.at, **row}
        for place, entry in enumerate(fresh)
        for row in _rows(entry, entries)
    ]
    if not rows:  # nothing is new; keys and groups cost nothing
        return None
    at = clock.now()
    run = with_origin(
        Run(
            run_id=f"{at:%Y%m%dT%H%M%S}-{PROBE}-{uuid.uuid4().hex[:8]}",
            probe=PROBE,
            purpose="profile",
            study=PROBE,
            repeat=1,
            scenario_id=None,
            backend="imported",
            status="ok",
            started_at=min(at, *(entry.at for entry in fresh)),
            ended_at=at,
            host_id=PROVIDER,
            host={"provider": PROVIDER},
            software={},
            config={"home": of, "first": first, "entries": len(fresh)},
        )
    )
    land(landing, run, None, {TABLE: pl.DataFrame(rows, infer_schema_length=None)})
    return run.run_id


def _rows(entry: Entry, entries: Entries) -> Iterator[Mapping[str, object]]:
    if isinstance(entry, LaunchResult):
        yield from ({"token": entry.token, "instance": id_} for id_ in entry.ids)
    elif isinstance(entry, InstanceEnd):
        launch = _launch_of(entry.id, entries)
        usd = None if launch is None else each_usd(launch, entry.seconds)
        yield {"instance": entry.id, "seconds": entry.seconds, "usd": usd}
    elif isinstance(entry, LaunchIntent):
        row = entry.model_dump(exclude={"kind", "owner", "count", "at"})
        yield {**row, "instances": entry.count, "usd": worst_usd(entry)}
    elif isinstance(entry, LaunchRefusal):
        yield {"token": entry.token, "code": entry.code, "reason": entry.reason}


def _launch_of(id_: str, entries: Entries) -> LaunchIntent | None:
    tokens = (token for token, result in entries.launched.items() if id_ in result.ids)
    return next((entries.intents[token] for token in tokens if token in entries.intents), None)


# Ending what dead processes of a home have rented, wherever that is, and landing what it cost.


def reap_rented(home: Path, say: Callable[[str], None]) -> ReapReport:
    """End what dead processes left: by the book, and by tags in the regions that it names.

    The fleet file's region counts too, once something was rented from this home or its book is
    lost; where there is neither, nobody is asked.
    """
    how = read_fleet().ec2 if has_fleet() else None
    regions, has_book = set() if how is None else {how.region}, (home / FOLDER).exists()
    if not regions and not has_book:
        return ReapReport()
    from profilers.renting.aws import Ec2  # boto3 takes half a second to import

    book = Book(home / FOLDER)
    regions |= {intent.region for intent in book.read().intents.values()}
    reaped = reap(book, sorted(regions), Ec2, say)
    land_book(home)
    if has_book:
        return reaped
    # Nothing was rented as far as anybody knows: a region that cannot be asked is no matter.
    return ReapReport(reaped.ended, tuple(left for left in reaped.left if left not in regions))
