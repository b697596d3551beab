"""What the fleet has to do: visits to its members, watches of them, and which of these are due."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from fleet.calendar import beginning, following
from fleet.history import Whose, drifted_at, judged_probes, runs
from fleet.members import Member, now, read_members
from fleet.visits import Due, Visits, last_probe, visits, watches
from warehouse.records import Run, StepcastError


@dataclass(frozen=True)
class Item:
    """A member's visits of one kind, and whether one is due.

    Attributes:
        member: whose.
        watches: whether they watch it; else they profile it.
        visits: None where the member cannot be measured here: `due` says why.
        due: whether one is to be made now.
        drifted_at: when the member's type was last found to have changed, if it was.
    """

    member: Member
    watches: bool
    visits: Visits | None
    due: Due
    drifted_at: datetime | None

    def key(self, at: datetime) -> str:
        """Return what names a visit to make: the same while nothing new has landed since its turn.

        So a visit that dies before it measures anything is asked for once in each turn.
        """
        assert self.visits is not None
        began = beginning(self.visits.every, self.member.at, at)
        landed = len(self.visits.runs)
        kind = "watch" if self.watches else "profile"
        return f"{kind} {self.member.node_type} {began:%Y-%m-%dT%H:%M} {landed}"


@dataclass(frozen=True)
class Known:
    """What the history says of the fleet: runs, confirmed alarms, and which probes were judged."""

    runs: tuple[Run, ...]
    drifted_at: Mapping[Whose, datetime]
    judged: frozenset[str]


def agenda(home: Path, at: datetime | None = None) -> tuple[Item, ...]:
    """Return what a home's fleet has to do: first all that watch, then all that profile.

    Raises:
        BadInput: the list of members is not what this code writes.
    """
    members = read_members(home)
    if not members:
        return ()
    known = Known(runs(home), drifted_at(home), judged_probes(home).known)
    return tuple(items(members.values(), known, at or now()))


def items(members: Iterable[Member], known: Known, at: datetime) -> list[Item]:
    """Return the agenda of members at a time, UTC."""
    members = list(members)
    watched = [_item(one, True, known, at) for one in members if one.watched]
    return watched + [_item(one, False, known, at) for one in members]


def _item(member: Member, watching: bool, known: Known, at: datetime) -> Item:
    try:
        found = (watches if watching else visits)(member, known.runs)
    except StepcastError as error:
        # One member that cannot be measured here takes no other with it.
        then = following("night" if watching else member.every, member.at, at)
        return Item(member, watching, None, Due(False, str(error), then), None)
    changed = known.drifted_at.get(found.whose)
    due = found.due(at, None if watching else changed)
    if watching and not due.now and not member.paused and _is_unjudged(found, known):
        due = Due(True, "its last probe was not judged", at)
    return Item(member, watching, found, due, changed)


def _is_unjudged(found: Visits, known: Known) -> bool:
    """Tell whether the last run is a probe without a judgement.

    If it failed, an earlier probe waits for the next turn: judging that would probe again at once.
    """
    last = last_probe(found.runs)
    return last is not None and last == found.runs[-1] and last.run_id not in known.judged
