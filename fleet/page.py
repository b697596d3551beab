"""What the fleet's page and one screen show: members, what watches found, what is stale."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import polars as pl

from fleet.history import NodeTypeKey, Spending, last_judgements, published
from fleet.members import now
from fleet.readings import WORDS, in_words
from fleet.schedule import AgendaItem, agenda

DAYS = 100
"""How far back pictures go."""
MOST_DRAWN = 6
"""Node types that have a picture: each takes a twentieth of a second or more."""
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
_ALARMS: Schema = {
    **{name: kind for name, kind in _JUDGEMENTS.items() if name not in ("watched_at", "alarm")},
    "raised_at": _TIME,
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
_PROFILED = ("name", "profiled_at", "runs")
_VISITS: Schema = {
    "node_type": pl.String(),
    **_PLACE,
    "profiled_at": _TIME,
    "runs": pl.Int64(),
}
_COLUMNS: Mapping[str, Schema] = {
    "judgements": _JUDGEMENTS,
    "alarms": _ALARMS,
    "profiled": _VISITS,
    "stale_runs": _RUNS,
    "stale_fits": _FITS,
}
"""What the page takes from each query."""


@dataclass(frozen=True)
class FleetPage:
    """What the page shows. `name` is a node type; with its place, where it has been in several.

    Attributes:
        at: when all this was so, UTC.
        names: node types that have a picture: `MOST_DRAWN`, those first that need attention.
        not_drawn: how many have none.
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
    not_drawn: int
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


def read_fleet_page(home: Path, at: datetime | None = None) -> FleetPage:
    """Return what the page of a home's fleet shows at a time (None: now), UTC, as published.

    Raises:
        BadInput: the list of members is not what this code writes.
    """
    at = at or now()
    since = at - timedelta(days=DAYS)
    items = agenda(home, at)
    visiting = [item for item in items if not item.watches]
    judged = last_judgements(home)
    alarms, runs, fits = (_asked(home, query) for query in ("alarms", "stale_runs", "stale_fits"))
    several = _in_several_places([*judged, *_places(runs), *_places(fits)], visiting)
    alarms, runs, fits = (_named(frame, several) for frame in (alarms, runs, fits))
    rows = status(items, judged)
    by_type = {item.member.node_type: item for item in visiting}
    members = {_called(by_type[name], several): by_type[name] for name in rows["node_type"]}
    others = sorted(_name_of(key, several) for key in judged)
    names = tuple(dict.fromkeys([*members, *others]))
    drawn = names[:MOST_DRAWN]
    parameters = {"node_type": ",".join({name.partition(" ")[0] for name in drawn}), "since": since}
    probes, profiled = (
        _named(_asked(home, query, parameters), several).filter(pl.col("name").is_in(drawn))
        for query in ("judgements", "profiled")
    )
    return FleetPage(
        at=at,
        names=drawn,
        not_drawn=len(names) - len(drawn),
        metrics=tuple(dict.fromkeys([*WORDS.values(), *probes["what"].unique().sort()])),
        status=rows,
        changed=sum(map(has_changed, visiting)),
        visits_due=sum(item.due.now for item in visiting),
        watches_due=sum(item.due.now for item in items if item.watches),
        probes=probes.sort("watched_at", maintain_order=True),
        alarms=alarms.rename({"raised_at": "watched_at"}),
        profiled=profiled.select(*_PROFILED),
        stale=_stale(runs, fits, members),
        stale_runs=runs.sort("started_at", descending=True, maintain_order=True),
        stale_fits=fits.sort("created_at", descending=True, maintain_order=True),
    )


def has_changed(item: AgendaItem) -> bool:
    """Tell whether a member has changed since it was last profiled as a whole."""
    if item.drifted_at is None or item.visits is None:
        return False
    return item.visits.last_began is None or item.visits.last_began < item.drifted_at


def _asked(
    home: Path, query: str, values: Mapping[str, object] = MappingProxyType({"node_type": None})
) -> pl.DataFrame:
    """Return what a query says, no rows where nothing has been published."""
    rows = published(home, query, values)
    return rows.select(*_COLUMNS[query]) if rows.width else pl.DataFrame(schema=_COLUMNS[query])


def _named(frame: pl.DataFrame, several: Set[str]) -> pl.DataFrame:
    """Add names, and what metrics are in words."""
    whole = pl.format("{} ({}, {})", "node_type", *_PLACE)
    is_one = ~pl.col("node_type").is_in(list(several))
    frame = frame.with_columns(name=pl.when(is_one).then("node_type").otherwise(whole))
    return frame.with_columns(_what(), _drawable_change()) if "metric" in frame.columns else frame


def _places(frame: pl.DataFrame) -> list[NodeTypeKey]:
    return frame.select("node_type", *_PLACE).unique().rows()


def _in_several_places(
    keys: Iterable[NodeTypeKey], visiting: Sequence[AgendaItem]
) -> frozenset[str]:
    """Return the node types that are, or have been, on several backends or hosts."""
    places = {*keys, *(item.visits.whose for item in visiting if item.visits)}
    counted = Counter(node_type for node_type, *_ in places)
    return frozenset(node_type for node_type, count in counted.items() if count > 1)


def _name_of(key: NodeTypeKey, several: Set[str]) -> str:
    node_type, backend, host_id = key
    return f"{node_type} ({backend}, {host_id})" if node_type in several else node_type


def _called(item: AgendaItem, several: Set[str]) -> str:
    return _name_of(item.visits.whose, several) if item.visits else item.member.node_type


def _what() -> pl.Expr:
    return pl.col("metric").map_elements(in_words, pl.String).alias("what")


def _drawable_change() -> pl.Expr:
    """Return the change; null where it is no number, as a run from elsewhere may say."""
    change = pl.col("change_percent")
    return pl.when(change.is_finite()).then(change)


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
    is_mended = pl.col("mends").str.starts_with("nothing")
    return joined.with_columns(pl.col("fits").fill_null(0), mends.cast(pl.String)).sort(
        is_mended, maintain_order=True
    )


def _mends(name: str, item: AgendaItem | None) -> str:
    """Return the command that profiles a type anew, or that it has been."""
    if item is None:
        return f"stepcast fleet add {name.partition(' ')[0]}"
    if item.visits is None or item.visits.last_began is None or has_changed(item):
        return f"stepcast fleet run {item.member.node_type}"
    return f"nothing: profiled anew {item.visits.last_began:%Y-%m-%d %H:%M}"


# The fleet on one screen: each member's profiles, drift, next turn, minutes and dollars.


def status(items: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str]) -> pl.DataFrame:
    """Return one row per member, those first that somebody should look at.

    Args:
        items: the agenda.
        judged: what the last watch made of each type (`fleet.history.last_judgements`).

    Returns:
        Columns node_type, last_profiled, drift, next, minutes (of runs this month), usd (for the
        nodes of these runs; NULL: no price is known), state.
    """
    by_member: dict[str, list[AgendaItem]] = {}
    for item in items:
        by_member.setdefault(item.member.node_type, []).append(item)
    urgent = sorted(by_member.values(), key=lambda member_items: _urgency(member_items, judged))
    return pl.DataFrame([_row(member_items, judged) for member_items in urgent], schema=_SCHEMA)


def _urgency(items: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str]) -> int:
    """Return how soon somebody should look at a member: 0 first."""
    if any(item.visits is None for item in items):
        return 0
    if any(map(has_changed, items)):
        return 1
    if any(item.due.why.startswith(("failed", "unfinished")) for item in items):
        return 2
    keys = [item.visits.whose for item in items if item.visits]
    if any(judged.get(key, "").startswith(("confirmed", "not confirmed")) for key in keys):
        return 3
    return 4 if any(item.due.now for item in items) else 5


_SCHEMA = {
    "node_type": pl.String,
    "last_profiled": pl.String,
    "drift": pl.String,
    "next": pl.String,
    "month_minutes": pl.Float64,
    "month_usd": pl.Float64,
    "state": pl.String,
}


def _row(items: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str]) -> dict[str, object]:
    profiling = next(item for item in items if not item.watches)
    all_visits = [item.visits for item in items if item.visits is not None]
    month = all_visits[0].month if all_visits else Spending()
    ended = profiling.visits and profiling.visits.last_ended
    key = profiling.visits and profiling.visits.whose
    unknown = "not watched yet" if len(items) > 1 else "not watched"
    return {
        "node_type": profiling.member.node_type,
        "last_profiled": f"{ended:%Y-%m-%d %H:%M}" if ended else "never",
        "drift": judged.get(key, unknown) if key else unknown,
        "next": "now" if profiling.due.now else f"{profiling.due.next:%Y-%m-%d %H:%M}",
        "month_minutes": round(month.seconds / 60, 1),
        "month_usd": None if month.usd is None else round(month.usd, 4),
        "state": profiling.due.why,
    }
