"""The fleet on one screen: each member's profiles, drift and next turn."""

from collections.abc import Mapping, Sequence

import polars as pl

from fleet.history import NodeTypeKey
from fleet.schedule import AgendaItem

_COLUMNS = ("node_type", "last_profiled", "drift", "next", "state")


def status(items: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str]) -> pl.DataFrame:
    """Return one row per member, those first that somebody should look at.

    Args:
        items: the agenda.
        judged: what the last watch made of each type (`fleet.history.last_judgements`).

    Returns:
        Columns node_type, last_profiled, drift, next, state; all are text.
    """
    by_member: dict[str, list[AgendaItem]] = {}
    for item in items:
        by_member.setdefault(item.member.node_type, []).append(item)
    urgent = sorted(by_member.values(), key=lambda member_items: _urgency(member_items, judged))
    rows = [_row(member_items, judged) for member_items in urgent]
    return pl.DataFrame(rows, dict.fromkeys(_COLUMNS, pl.String))


def _urgency(items: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str]) -> int:
    """Return how soon somebody should look at a member: 0 first."""
    if any(item.visits is None for item in items):
        return 0
    if any(map(_has_changed, items)):
        return 1
    if any(item.due.why.startswith(("failed", "unfinished")) for item in items):
        return 2
    keys = [item.visits.whose for item in items if item.visits]
    if any(judged.get(key, "").startswith(("confirmed", "not confirmed")) for key in keys):
        return 3
    return 4 if any(item.due.now for item in items) else 5


def _has_changed(item: AgendaItem) -> bool:
    """Tell whether a member has changed since it was last profiled as a whole."""
    if item.drifted_at is None or item.visits is None:
        return False
    return item.visits.last_began is None or item.visits.last_began < item.drifted_at


def _row(items: Sequence[AgendaItem], judged: Mapping[NodeTypeKey, str]) -> dict[str, str]:
    profiling = next(item for item in items if not item.watches)
    ended = profiling.visits and profiling.visits.last_ended
    key = profiling.visits and profiling.visits.whose
    unknown = "not watched yet" if len(items) > 1 else "not watched"
    return {
        "node_type": profiling.member.node_type,
        "last_profiled": f"{ended:%Y-%m-%d %H:%M}" if ended else "never",
        "drift": judged.get(key, unknown) if key else unknown,
        "next": "now" if profiling.due.now else f"{profiling.due.next:%Y-%m-%d %H:%M}",
        "state": profiling.due.why,
    }
