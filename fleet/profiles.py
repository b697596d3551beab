"""A member's profiles: what is wrong with them, and how long a visit may still take."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

from fleet.schedule import Visits, period_start
from forecasting import sanity
from profilers.renting.cap import BudgetExceeded
from studies import run_tables

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
        yield from sanity.odd_links(run_tables.table(landing, run, "link"), need.subject.link_mbps)


def _age(found: Visits, now: datetime) -> Iterator[str]:
    """Yield that profiles are older than two turns, or that the visit under way lacks some."""
    if found.last_ended is None:
        yield "it has never been profiled as a whole"
    else:
        began = period_start(found.every, found.member.at, now)
        previous = period_start(found.every, found.member.at, began - timedelta(seconds=1))
        if found.last_ended < previous - _LATE:
            yield f"its profiles are of {found.last_ended:%Y-%m-%d}: older than one {found.every}"
    if found.round_.runs:
        lacking = ", ".join(dict.fromkeys(need.probe for need in found.round_.missing))
        yield f"its visit {found.round_.repeat} is unfinished: {lacking}"


# How much machine time a visit may still take.


__all__ = ["Budget", "BudgetExceeded"]


class Budget:
    """The seconds of a visit, by a clock that nobody can set.

    Args:
        most_s: that it may take.
        spent_s: what an interrupted part of it has taken.
        clock: seconds that only grow.
    """

    def __init__(
        self, most_s: float, spent_s: float = 0.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most_s, self._clock = most_s, clock
        self._began_s = clock() - spent_s

    @property
    def left_s(self) -> float:
        """What is left."""
        return max(self._most_s - (self._clock() - self._began_s), 0.0)

    def may_take(self, expected_s: float) -> None:
        """Refuse what takes longer than is left.

        Raises:
            BudgetExceeded: it does.
        """
        if expected_s > self.left_s:
            raise BudgetExceeded(
                f"the next run takes about {_minutes(expected_s)}, and {_minutes(self.left_s)} of "
                f"{_minutes(self._most_s)} are left; the next visit goes on"
            )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
