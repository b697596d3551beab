"""What has been measured of a member of the fleet, and whether it is due."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from fleet.calendar import VISITS_A_MONTH, beginning, following, month_of
from fleet.history import Whose
from fleet.members import WATCH, Every, Member
from fleet.studies import visit, watching
from forecasting.chosen import asking_of
from forecasting.ready import chosen_backend
from profilers.clusters import host_id
from studies.needs import expected_s, starts
from studies.plan import tasks
from studies.rounds import Round, open_round
from studies.study import OF_FLEET, Study
from warehouse.records import Run


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
        runs: of all of them, failed ones too, on this backend and host, in order of their starts.
        of_member: the same of visits of both kinds: those that profile the member, and watch it.
    """

    member: Member
    every: Every
    round_: Round
    runs: tuple[Run, ...]
    of_member: tuple[Run, ...]

    @property
    def whose(self) -> Whose:
        """The member's node type, where it is, and on which host."""
        return self.member.node_type, self.round_.backend, self.round_.host_id

    @property
    def latest_runs(self) -> tuple[Run, ...]:
        """The runs of the last complete visit and of the one under way, failed ones too."""
        return tuple(run for run in self.runs if run.repeat >= self.round_.repeat - 1)

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
    def latest(self) -> Round:
        """The last complete visit; the first one, if none is complete."""
        repeat = max(self.round_.repeat - 1, 1)
        runs = (run for run in self.runs if run.repeat == repeat and run.status == "ok")
        return replace(self.round_, repeat=repeat, runs=tuple(runs))

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

    def spent_s(self, since: datetime) -> float:
        """Return how many seconds of runs there have been since then."""
        return spent_s(self.runs, since)

    def due(self, now: datetime, drifted_at: datetime | None = None) -> Due:
        """Tell whether a visit is due.

        A visit that was interrupted goes on while it has minutes; one that failed waits for its
        next turn, so that what always fails does not cost every minute there is.

        Args:
            now: UTC.
            drifted_at: when the type was last found to have changed, if it was.
        """
        member = self.member
        began = beginning(self.every, member.at, now)
        then = following(self.every, member.at, now)
        recent = [run for run in self.runs if run.started_at >= began]
        if member.paused:
            return Due(False, "paused", then)
        if member.month_minutes is not None:
            if spent_s(self.of_member, month_of(now)) >= 60 * member.month_minutes:
                return Due(False, "the minutes of the month are spent", then)
        if any(run.status == "failed" and run.repeat == self.round_.repeat for run in recent):
            return Due(False, "failed", then)
        if self.round_.runs:
            ahead_s = expected_s(next(starts(self.round_.missing)))
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
    """Return the visits that profile a member, among runs of all kinds.

    Raises:
        BadInput: the member cannot be profiled here.
        MissingTool: its backend does not work here.
    """
    return _visits(member, member.every, visit(member), runs)


def watches(member: Member, runs: Iterable[Run]) -> Visits:
    """Return the visits that watch a member for drift, which is each night.

    Raises:
        BadInput: the member cannot be watched here.
        MissingTool: its backend does not work here.
    """
    return _visits(member, "night", watching(member), runs)


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
    here = host_id(backend)
    studies = {prefix + member.node_type for prefix in OF_FLEET}
    of_member = [
        run
        for run in runs
        if run.study in studies and (run.backend, run.host_id) == (backend, here)
    ]
    of_member.sort(key=lambda run: run.started_at)
    ours = tuple(run for run in of_member if run.study == study.name)
    round_ = open_round(study, asking_of(study), backend, here, ours)
    return Visits(member, every, round_, ours, tuple(of_member))
