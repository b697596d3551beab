"""When a member of the fleet is due: the calendar, what has been measured of it, and the agenda."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType

import polars as pl

from fleet.history import NodeTypeKey, drifted_at, judged_probes, runs
from fleet.members import WATCH, Every, Member, now, read_members
from fleet.studies import profiling_study, watching_study
from forecasting.inputs import inputs_of_study
from forecasting.study_checks import chosen_backend
from profilers.clusters import host_id
from studies.plan import tasks
from studies.planned_runs import expected_s, group_by_start
from studies.rounds import Round, open_round
from studies.study import Study
from warehouse.records import Run, StepcastError


@dataclass(frozen=True)
class Due:
    """Whether something is to be done now, why or why not, and when it is by the calendar."""

    now: bool
    why: str
    next: datetime


@dataclass(frozen=True)
class Visits:
    """The rounds of one study of a member.

    Attributes:
        member: whose.
        every: how often there is to be one.
        round_: the one that is to be done next, or to be gone on with.
        runs: of the last two, failed ones too, on this backend and host, in order of their starts.
    """

    member: Member
    every: Every
    round_: Round
    runs: tuple[Run, ...]

    @property
    def whose(self) -> NodeTypeKey:
        """The member's node type, where it is, and on which host."""
        return self.member.node_type, self.round_.backend, self.round_.host_id

    @property
    def done(self) -> tuple[Run, ...]:
        """The runs of complete visits."""
        return tuple(run for run in self.runs if run.repeat < self.round_.repeat)

    @property
    def last_began(self) -> datetime | None:
        """When the last complete visit began."""
        last = [run.started_at for run in self.done if run.repeat == self.round_.repeat - 1]
        return min(last, default=None)

    @property
    def last_ended(self) -> datetime | None:
        """When the last complete visit ended."""
        return max((run.ended_at for run in self.done if run.status == "ok"), default=None)

    @property
    def expected_s(self) -> float:
        """How many seconds of runs a whole visit has: as the last one had, else as planned."""
        last = [run for run in self.done if run.repeat == self.round_.repeat - 1]
        if last:
            return sum(run.took_s for run in last)
        return sum(task.expected_s for task in tasks(replace(self.round_, runs=())))

    @property
    def month_s(self) -> float:
        """How long the visits of a mean month take."""
        return VISITS_A_MONTH[self.every] * self.expected_s

    def due(self, now: datetime, drifted_at: datetime | None = None) -> Due:
        """Tell whether a visit is due.

        A visit that was interrupted goes on while it has minutes; one that failed waits for its
        next turn, so that what always fails does not cost every minute there is.

        Args:
            now: UTC.
            drifted_at: when the type was last found to have changed, if it was.
        """
        member = self.member
        began = period_start(self.every, member.at, now)
        then = next_period_start(self.every, member.at, now)
        recent = [run for run in self.runs if run.started_at >= began]
        if member.paused:
            return Due(False, "paused", then)
        if any(run.status == "failed" and run.repeat == self.round_.repeat for run in recent):
            return Due(False, "failed", then)
        if self.round_.runs:
            ahead_s = expected_s(next(group_by_start(self.round_.missing)))
            if spent_s(self.round_.runs, began) + ahead_s > 60 * member.max_minutes:
                return Due(False, "unfinished: its minutes are spent", then)
            return Due(True, "unfinished", now)
        if self.last_ended is None or self.last_began is None:
            return Due(True, "never done", now)
        if drifted_at is not None and self.last_began < drifted_at:
            return Due(True, "it has drifted", now)
        if self.last_ended < began:
            return Due(True, f"last done {self.last_ended:%Y-%m-%d %H:%M}", now)
        return Due(False, "done", then)


def visits(member: Member, runs: Iterable[Run]) -> Visits:
    """Return the visits that profile a member.

    Args:
        member: whose.
        runs: of all kinds; those of other studies are left out.

    Raises:
        BadInput: the member cannot be profiled here.
        MissingTool: its backend does not work here.
    """
    return _visits(member, member.every, profiling_study(member), runs)


def watches(member: Member, runs: Iterable[Run]) -> Visits:
    """Return the visits that watch a member for drift, which is each night; given as `visits`.

    Raises:
        BadInput: the member cannot be watched here.
        MissingTool: its backend does not work here.
    """
    return _visits(member, "night", watching_study(member), runs)


def probes(runs: Iterable[Run]) -> list[Run]:
    """Return the runs that watched a type, in order of their starts, of runs in that order."""
    return [run for run in runs if run.probe == WATCH and run.status == "ok"]


def last_probe(runs: Iterable[Run]) -> Run | None:
    """Return the last of these, None if there is none."""
    return next(reversed(probes(runs)), None)


def spent_s(runs: Iterable[Run], since: datetime) -> float:
    """Return how many seconds runs took that started since then."""
    return sum(run.took_s for run in runs if run.started_at >= since)


def _visits(member: Member, every: Every, study: Study, runs: Iterable[Run]) -> Visits:
    backend, _ = chosen_backend(member.backend)
    this_host_id = host_id(backend)
    wanted = study.name, backend, this_host_id
    member_runs = [run for run in runs if (run.study, run.backend, run.host_id) == wanted]
    member_runs.sort(key=lambda run: run.started_at)
    # Of a visit before the newest one nothing is measured any more.
    newest = max((run.repeat for run in member_runs), default=1)
    round_ = open_round(study, inputs_of_study(study), backend, this_host_id, member_runs, newest)
    return Visits(member, every, round_, tuple(member_runs))


# What the fleet has to do: visits to its members, watches of them, and which of these are due.


@dataclass(frozen=True)
class AgendaItem:
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
        began = period_start(self.visits.every, self.member.at, at)
        last = self.visits.runs[-1].run_id if self.visits.runs else "none"
        kind = "watch" if self.watches else "profile"
        return f"{kind} {self.member.node_type} {began:%Y-%m-%dT%H:%M} {last}"


def agenda(home: Path, at: datetime | None = None) -> tuple[AgendaItem, ...]:
    """Return what a home's fleet has to do: first all that watch, then all that profile.

    Raises:
        BadInput: the list of members is not what this code writes.
    """
    members = read_members(home)
    if not members:
        return ()
    at = at or now()
    recent = runs(home)
    last = {(run.study, run.backend, run.host_id): run.run_id for run in probes(recent)}
    judged = judged_probes(home, list(last.values()))
    return tuple(items([*members.values()], recent, drifted_at(home), judged, at))


def items(
    members: Sequence[Member],
    runs: Iterable[Run],
    drifted_at: Mapping[NodeTypeKey, datetime],
    judged: Collection[str],
    at: datetime,
) -> list[AgendaItem]:
    """Return the agenda of members at a time.

    Args:
        members: all there are.
        runs: as `fleet.history.runs` has them.
        drifted_at: when each type was last found to have changed, if it was.
        judged: of the last probe of each type, the run ids of those that were judged.
        at: the time, UTC.
    """
    by_type: dict[str, list[Run]] = {}
    for run in runs:
        by_type.setdefault(run.study.partition(".")[2], []).append(run)

    def item(member: Member, watching: bool) -> AgendaItem:
        try:
            of_member = (watches if watching else visits)(member, by_type.get(member.node_type, ()))
        except StepcastError as error:
            # One member that cannot be measured here takes no other with it.
            then = next_period_start("night" if watching else member.every, member.at, at)
            return AgendaItem(member, watching, None, Due(False, str(error), then), None)
        changed = drifted_at.get(of_member.whose)
        due = of_member.due(at, None if watching else changed)
        if watching and not due.now and not member.paused and _is_unjudged(of_member, judged):
            due = Due(True, "its last probe was not judged", at)
        return AgendaItem(member, watching, of_member, due, changed)

    watched = [item(member, watching=True) for member in members if member.watched]
    return watched + [item(member, watching=False) for member in members]


def _is_unjudged(visits: Visits, judged: Collection[str]) -> bool:
    """Tell whether the last run is a probe without a judgement.

    If it failed, an earlier probe waits for the next turn: judging that would probe again at once.
    """
    last = last_probe(visits.runs)
    return last is not None and last == visits.runs[-1] and last.run_id not in judged


# When members of the fleet are due by the calendar: hours, nights, weeks and months, UTC.


_DAYS = 365.2425
VISITS_A_MONTH: Mapping[Every, float] = MappingProxyType(
    {"hour": 2 * _DAYS, "night": _DAYS / 12, "week": _DAYS / 7 / 12, "month": 1.0}
)
"""How many visits a mean month has."""
_SUNDAY = 6


def period_start(every: Every, at: str, now: datetime) -> datetime:
    """Return when the present hour, night, week or month began: what was done since is done.

    Args:
        every: how often something is done.
        at: the time of day of nights, weeks and months, HH:MM.
        now: UTC.
    """
    if every == "hour":
        return now.replace(minute=0, second=0, microsecond=0)
    hour, minute = map(int, at.split(":"))
    then = now.replace(hour=hour, minute=minute, second=0, microsecond=0)
    if every == "month":
        first = then.replace(day=1)
        return first if first <= now else (first - timedelta(days=1)).replace(day=1)
    if every == "week":
        then -= timedelta(days=(then.weekday() - _SUNDAY) % 7)
        return then if then <= now else then - timedelta(days=7)
    return then if then <= now else then - timedelta(days=1)


def next_period_start(every: Every, at: str, now: datetime) -> datetime:
    """Return when the next one begins."""
    began = period_start(every, at, now)
    match every:
        case "hour":
            return began + timedelta(hours=1)
        case "night":
            return began + timedelta(days=1)
        case "week":
            return began + timedelta(days=7)
        case "month":
            return (began + timedelta(days=31)).replace(day=1)


# The fleet on one screen: each member's profiles, drift and next turn.


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
    visits = [item.visits for item in items if item.visits]
    drifted = [item.drifted_at for item in items if item.drifted_at]
    # Since it was last profiled as a whole.
    if any(one.last_began is None or one.last_began < at for one in visits for at in drifted):
        return 1
    if any(item.due.why.startswith(("failed", "unfinished")) for item in items):
        return 2
    drifts = [judged.get(one.whose, "") for one in visits]
    if any(drift.startswith(("confirmed", "not confirmed")) for drift in drifts):
        return 3
    return 4 if any(item.due.now for item in items) else 5


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
