"""What is wrong with the profiles of a member of the fleet: one verdict for each node type."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from fleet.calendar import beginning
from fleet.visits import Visits
from forecasting import sanity
from studies import landed

_LATE = timedelta(days=1)
"""How much later than its turn a visit may be: a host that was off has a day to catch up."""


def findings(
    found: Visits, landing: Path, now: datetime, drifted_at: datetime | None
) -> Iterator[str]:
    """Yield what is wrong: old profiles, unfinished visits, drift, links that are not as shaped.

    Args:
        found: the visits to a member.
        landing: where its runs have landed.
        now: UTC.
        drifted_at: when the type was last found to have changed, if it was.
    """
    yield from _age(found, now)
    if drifted_at is not None and (found.last_began is None or found.last_began < drifted_at):
        yield f"it has changed at {drifted_at:%Y-%m-%d %H:%M}, and its profiles are from before"
    for need, run in found.latest.runs_of("links").items():
        yield from sanity.odd_links(landed.table(landing, run, "link"), need.subject.link_mbps)


def _age(found: Visits, now: datetime) -> Iterator[str]:
    """Yield that profiles are older than two turns, or that the visit under way lacks some."""
    if found.last_ended is None:
        yield "it has never been profiled as a whole"
    else:
        began = beginning(found.every, found.member.at, now)
        previous = beginning(found.every, found.member.at, began - timedelta(seconds=1))
        if found.last_ended < previous - _LATE:
            yield f"its profiles are of {found.last_ended:%Y-%m-%d}: older than one {found.every}"
    if found.round_.runs:
        lacking = ", ".join(dict.fromkeys(need.probe for need in found.round_.missing))
        yield f"its visit {found.round_.repeat} is unfinished: {lacking}"
