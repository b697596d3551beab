"""What the fleet's page and one screen show: members, what watches found, what is stale."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from fleet.history import NodeTypeKey, last_judgements, of_all_types
from fleet.members import now
from fleet.readings import WORDS, in_words
from fleet.schedule import AgendaItem, Visits, agenda, month_of

DAYS = 100
"""How far back pictures go."""
Schema = dict[str, pl.DataType]
_TIME = pl.Datetime("us", "UTC")
_CHANGE: Schema = {"node_type": pl.String(), "metric": pl.String(), "change_percent": pl.Float64()}
_PLACE: Schema = {"backend": pl.String(), "host_id": pl.String()}
_JUDGEMENTS: Schema = {
    **_CHANGE,
    **_PLACE,
    "watched_at": _TIME,
    "robust_z": pl.Float64(),
    "outcome": pl.String(),
    "alarm": pl.Boolean(),
    "confirmed": pl.Boolean(),
    "watched": pl.String(),
    "confirmed_by": pl.String(),
}
_RUNS: Schema = {
    **_CHANGE,
    **_PLACE,
    "run_id": pl.String(),
    "probe": pl.String(),
    "study": pl.String(),
    "started_at": _TIME,
    "stale_since": _TIME,
}
_FITS: Schema = {
    **_CHANGE,
    **_PLACE,
    "fit_id": pl.String(),
    "system": pl.String(),
    "created_at": _TIME,
    "stale_runs": pl.Int64(),
}
_COLUMNS: Mapping[str, Schema] = {
    "judgements": _JUDGEMENTS,
    "stale_runs": _RUNS,
    "stale_fits": _FITS,
}
"""What the page takes from each query."""
_PROFILED: Schema = {"name": pl.String(), "profiled_at": _TIME, "runs": pl.Int64()}


@dataclass(frozen=True)
class FleetPage:
    """What the page shows. `name` is a node type; with its place, where it has been in several.

    Attributes:
        at: when all this was so, UTC.
        names: node types that have a picture, members first.
        metrics: what is watched, in words.
        status: `fleet.page.status`.
        changed: members that have changed since they were profiled.
        visits_due: visits that are due now.
        watches_due: watches that are due now.
        probes: what watches of the last `DAYS` found of each metric, in order of time: name,
            watched_at, what, change_percent (how much worse), robust_z, outcome, alarm, confirmed,
            watched and confirmed_by (run ids).
        alarms: the same of all alarms there ever were, the newest first.
        profiled: name, profiled_at and runs of each visit of the last `DAYS`.
        stale: a row for each name that has changed: stale_since, what, change_percent, how many
            runs and fits are from before, and what mends that.
        stale_runs: name, run_id, probe, study and started_at, the newest first.
        stale_fits: name, fit_id, system, created_at and stale_runs, the newest first.
    """

    at: datetime
    names: tuple[str, ...]
    metrics: tuple[str, ...]
    status: pl.DataFrame
    changed: int
    visits_due: int
    watches_due: int
    probes: pl.DataFrame
    alarms: pl.DataFrame
    profiled: pl.DataFrame
    stale: pl.DataFrame
    stale_runs: pl.DataFrame
    stale_fits: pl.DataFrame


def read_fleet_page(home: Path) -> FleetPage:
    """Return what the page of a home's fleet shows, by its published history.

    Raises:
        BadInput: the list of members is not what this code writes.
    """
    at = now()
    since = at - timedelta(days=DAYS)
    items = agenda(home, at)
    visiting = [item for item in items if not item.watches]
    frames = [_asked(home, query) for query in _COLUMNS]
    several = _in_several_places(frames, visiting)
    probes, runs, fits = (
        frame.with_columns(_name(several), _what(), _drawable_change()) for frame in frames
    )
    probes = probes.sort("watched_at", maintain_order=True)
    members = {_called(item, several): item for item in visiting}
    return FleetPage(
        at=at,
        names=tuple(dict.fromkeys([*members, *probes["name"].unique().sort()])),
        metrics=tuple(dict.fromkeys([*WORDS.values(), *probes["what"].unique().sort()])),
        status=status(items, home, at),
        changed=sum(map(has_changed, visiting)),
        visits_due=sum(item.due.now for item in visiting),
        watches_due=sum(item.due.now for item in items if item.watches),
        probes=probes.filter(pl.col("watched_at") >= since),
        alarms=probes.filter("alarm").sort("watched_at", descending=True, maintain_order=True),
        profiled=pl.DataFrame(list(_profiled(members, since)), _PROFILED, orient="row"),
        stale=_stale(runs, fits, members),
        stale_runs=runs.sort("started_at", descending=True, maintain_order=True),
        stale_fits=fits.sort("created_at", descending=True, maintain_order=True),
    )


def has_changed(item: AgendaItem) -> bool:
    """Tell whether a member has changed since it was last profiled as a whole."""
    if item.drifted_at is None or item.visits is None:
        return False
    return item.visits.last_began is None or item.visits.last_began < item.drifted_at


def _asked(home: Path, query: str) -> pl.DataFrame:
    """Return what a query says, no rows where nothing has been published."""
    rows = of_all_types(home, query)
    return rows.select(*_COLUMNS[query]) if rows.width else pl.DataFrame(schema=_COLUMNS[query])


def _in_several_places(frames: Sequence[pl.DataFrame], visiting: Sequence[AgendaItem]) -> list[str]:
    """Return the node types that are, or have been, on several backends or hosts."""
    places = {row for frame in frames for row in frame.select("node_type", *_PLACE).unique().rows()}
    places |= {item.visits.whose for item in visiting if item.visits}
    counted = Counter(node_type for node_type, *_ in places)
    return [node_type for node_type, count in counted.items() if count > 1]


def _name(several: Sequence[str]) -> pl.Expr:
    whole = pl.format("{} ({}, {})", "node_type", *_PLACE)
    is_one = ~pl.col("node_type").is_in(several)
    return pl.when(is_one).then("node_type").otherwise(whole).alias("name")


def _called(item: AgendaItem, several: Sequence[str]) -> str:
    """Return the name of a member as `_name` has it."""
    node_type = item.member.node_type
    if item.visits is None or node_type not in several:
        return node_type
    _, backend, host_id = item.visits.whose
    return f"{node_type} ({backend}, {host_id})"


def _what() -> pl.Expr:
    return pl.col("metric").map_elements(in_words, pl.String).alias("what")


def _drawable_change() -> pl.Expr:
    """Return the change; null where it is no number, as a run from elsewhere may say."""
    change = pl.col("change_percent")
    return pl.when(change.is_finite()).then(change)


def _profiled(
    members: Mapping[str, AgendaItem], since: datetime
) -> Iterator[tuple[str, datetime, int]]:
    """Yield the name of a member, when a visit to it began, and how many of its runs succeeded."""
    for name, item in members.items():
        began: dict[int, list[datetime]] = {}
        for run in item.visits.runs if item.visits else ():
            if run.status == "ok" and run.started_at >= since:
                began.setdefault(run.repeat, []).append(run.started_at)
        yield from ((name, min(times), len(times)) for times in began.values())


def _stale(
    runs: pl.DataFrame, fits: pl.DataFrame, members: Mapping[str, AgendaItem]
) -> pl.DataFrame:
    """Return what is stale of each name, by the change that came after its newest such run."""
    by_name = (
        runs.sort("started_at")
        .group_by("name", maintain_order=True)
        .agg(pl.col("stale_since", "what", "change_percent").last(), runs=pl.len())
    )
    counted = fits.group_by("name").agg(fits=pl.col("fit_id").n_unique())
    joined = by_name.join(counted, on="name", how="left", maintain_order="left")
    mends = pl.Series("mends", [_mends(name, members.get(name)) for name in joined["name"]])
    return joined.with_columns(pl.col("fits").fill_null(0), mends.cast(pl.String))


def _mends(name: str, item: AgendaItem | None) -> str:
    """Return the command that profiles a type anew, or that it has been."""
    if item is None:
        return f"stepcast fleet add {name.partition(' ')[0]}"
    if item.visits is None or item.visits.last_began is None or has_changed(item):
        return f"stepcast fleet run {item.member.node_type}"
    return f"nothing: profiled anew {item.visits.last_began:%Y-%m-%d %H:%M}"


# The fleet on one screen: each member's profiles, drift, next turn, minutes and dollars.


def status(items: Sequence[AgendaItem], home: Path, at: datetime) -> pl.DataFrame:
    """Return one row per member.

    Args:
        items: the agenda.
        home: whose history says what the last watch made of each type.
        at: now, UTC.

    Returns:
        Columns node_type, last_profiled, drift, next, minutes (of runs this month), usd (for the
        nodes of these runs; NULL: no price is known), state.
    """
    judged = last_judgements(home)
    members = dict.fromkeys(item.member.node_type for item in items)
    rows = [
        _row([item for item in items if item.member.node_type == name], judged, at)
        for name in members
    ]
    return pl.DataFrame(rows, schema=_SCHEMA)


_SCHEMA = {
    "node_type": pl.String,
    "last_profiled": pl.String,
    "drift": pl.String,
    "next": pl.String,
    "month_minutes": pl.Float64,
    "month_usd": pl.Float64,
    "state": pl.String,
}


def _row(
    ours: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str], at: datetime
) -> dict[str, object]:
    profiling = next(item for item in ours if not item.watches)
    all_visits = [item.visits for item in ours if item.visits is not None]
    since = month_of(at)
    dollars = [cost for visits in all_visits for cost in usd(visits, since)]
    ended = profiling.visits and profiling.visits.last_ended
    whose = profiling.visits and profiling.visits.whose
    unknown = "not watched yet" if len(ours) > 1 else "not watched"
    return {
        "node_type": profiling.member.node_type,
        "last_profiled": f"{ended:%Y-%m-%d %H:%M}" if ended else "never",
        "drift": judged.get(whose, unknown) if whose else unknown,
        "next": "now" if profiling.due.now else f"{profiling.due.next:%Y-%m-%d %H:%M}",
        "month_minutes": round(sum(visits.spent_s(since) for visits in all_visits) / 60, 1),
        "month_usd": None if None in dollars else round(sum(filter(None, dollars)), 4),
        "state": profiling.due.why,
    }


def usd(visits: Visits, since: datetime) -> Iterator[float | None]:
    """Yield what the nodes of each run since then cost, US dollars; None: no price was known."""
    for run in visits.runs:
        hourly = run.config.get("usd_per_hour")
        hours = run.took_s / 3600
        if run.started_at < since or not hours:
            continue
        if run.cost_usd is not None:
            yield run.cost_usd
        else:
            yield hours * hourly if isinstance(hourly, int | float) else None
