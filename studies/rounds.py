"""Rounds of a study: which one is to be done, and what of it is missing.

What has landed ok in a round need not be run again, so an interrupted study resumes where it
stopped, and a complete one is measured anew, whole or in part, on re-created clusters, in the next
round.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

from studies.parts import Part, Probe, parts
from studies.study import Study
from warehouse.records import Backend, Purpose, Run


@dataclass(frozen=True)
class Round:
    """One round of a study on one backend and host."""

    study: Study
    backend: Backend
    host_id: str
    repeat: int
    runs: tuple[Run, ...]
    """What has landed ok in it, and earlier profiles where `Study.profiled_once`."""

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What it needs, in the order in which it is run."""
        return parts(self.study, self.backend)

    @property
    def missing(self) -> tuple[Part, ...]:
        """What it still needs."""
        return tuple(part for part in self.parts if self.run_of(part) is None)

    def missing_of(self, probe: Probe, purpose: Purpose) -> tuple[Part, ...]:
        """What it still needs of one probe, for predictors or to judge them."""
        wanted = probe, purpose
        return tuple(part for part in self.missing if (part.probe, part.purpose) == wanted)

    @property
    def is_judged(self) -> bool:
        """Whether something has landed that judges it: its forecasts then rest on what it has."""
        return any(run.repeat == self.repeat and run.purpose == "measurement" for run in self.runs)

    @property
    def superseded(self) -> dict[str, Part]:
        """The runs that measured other things than the study now asks for, and serve no more."""
        needed = () if self.is_judged else self.parts
        both = ((run, part) for run in self.runs for part in needed)
        return {run.run_id: part for run, part in both if _is_outdated(part, run)}

    def run_of(self, part: Part) -> Run | None:
        """Return the newest run that serves as this part, None if it is missing."""
        done = [run for run in self.runs if part.is_done_by(run)]
        if not self.is_judged:
            done = [run for run in done if not _is_outdated(part, run)]
        return max(done, key=lambda run: run.started_at, default=None)

    def runs_of(self, *probes: str) -> dict[Part, Run]:
        """Return the runs of some probes that landed."""
        found = {part: self.run_of(part) for part in self.parts if part.probe in probes}
        return {part: run for part, run in found.items() if run}


def _is_outdated(part: Part, run: Run) -> bool:
    return part.is_done_by(run) and not part.asks_the_same_of(run)


def open_round(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> Round:
    """Return the first round that is not complete, the next one if all are."""
    ours = _runs_of(study, backend, host_id, runs)
    rounds = (_round(study, backend, host_id, repeat, ours) for repeat in count(1))
    return next(one for one in rounds if one.missing)


def refreshed(round_: Round, runs: Iterable[Run]) -> Round:
    """Return the same round with what has landed meanwhile."""
    ours = _runs_of(round_.study, round_.backend, round_.host_id, runs)
    return replace(round_, runs=_runs_in(round_.study, round_.repeat, ours))


def latest_round(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> Round | None:
    """Return the round that the newest run belongs to, or an earlier one that is not complete.

    None if nothing has landed. A study that was given more curves goes on with its first round.
    """
    ours = _runs_of(study, backend, host_id, runs)
    if not ours:
        return None
    newest = max(ours, key=lambda run: run.started_at)
    going_on = open_round(study, backend, host_id, ours)
    return _round(study, backend, host_id, min(newest.repeat, going_on.repeat), ours)


def whole_round(round_: Round, study: Study, runs: Iterable[Run]) -> Round:
    """Return the round itself; the first one where later rounds repeat a part of the study."""
    if study.in_round(round_.repeat) == study:
        return round_
    ours = _runs_of(study, round_.backend, round_.host_id, runs)
    return _round(study, round_.backend, round_.host_id, 1, ours)


def rounds_of(study: Study, runs: Iterable[Run]) -> list[Round]:
    """Return every round of a study that has landed, whatever the backend and host."""
    runs = list(runs)
    keys = {(run.backend, run.host_id, run.repeat) for run in runs if run.study == study.name}
    return [
        _round(study, backend, host_id, repeat, _runs_of(study, backend, host_id, runs))
        for backend, host_id, repeat in sorted(keys)
    ]


def _round(study: Study, backend: Backend, host_id: str, repeat: int, runs: Sequence[Run]) -> Round:
    return Round(study.in_round(repeat), backend, host_id, repeat, _runs_in(study, repeat, runs))


def _runs_in(study: Study, repeat: int, runs: Iterable[Run]) -> tuple[Run, ...]:
    def counts(run: Run) -> bool:
        earlier = study.profiled_once and run.purpose == "profile" and run.repeat < repeat
        return run.repeat == repeat or earlier

    return tuple(run for run in runs if counts(run))


def _runs_of(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> list[Run]:
    wanted = ("ok", study.name, backend, host_id)
    return [run for run in runs if (run.status, run.study, run.backend, run.host_id) == wanted]
