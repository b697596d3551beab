"""The fleet on one screen: each member's profiles, drift, next turn, minutes and dollars."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl

from fleet.agenda import Item
from fleet.calendar import month_of
from fleet.history import Whose, last_judgements
from fleet.visits import Visits


def status(items: Sequence[Item], home: Path, at: datetime) -> pl.DataFrame:
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
        _row([one for one in items if one.member.node_type == name], judged, at) for name in members
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


def _row(ours: Sequence[Item], judged: Mapping[Whose, str], at: datetime) -> dict[str, object]:
    profiling = next(one for one in ours if not one.watches)
    found = [one.visits for one in ours if one.visits is not None]
    since = month_of(at)
    dollars = [cost for one in found for cost in usd(one, since)]
    ended = profiling.visits and profiling.visits.last_ended
    whose = profiling.visits and profiling.visits.whose
    unknown = "not watched yet" if len(ours) > 1 else "not watched"
    return {
        "node_type": profiling.member.node_type,
        "last_profiled": f"{ended:%Y-%m-%d %H:%M}" if ended else "never",
        "drift": judged.get(whose, unknown) if whose else unknown,
        "next": "now" if profiling.due.now else f"{profiling.due.next:%Y-%m-%d %H:%M}",
        "month_minutes": round(sum(one.spent_s(since) for one in found) / 60, 1),
        "month_usd": None if None in dollars else round(sum(filter(None, dollars)), 4),
        "state": profiling.due.why,
    }


def usd(found: Visits, since: datetime) -> Iterator[float | None]:
    """Yield what the nodes of each run since then cost, US dollars; None: no price was known."""
    for run in found.runs:
        hourly = run.config.get("usd_per_hour")
        hours = run.took_s / 3600
        if run.started_at < since or not hours:
            continue
        if run.cost_usd is not None:
            yield run.cost_usd
        else:
            yield hours * hourly if isinstance(hourly, int | float) else None
