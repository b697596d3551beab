"""Rounds of a study: which is to be done, what is missing, and what has landed with other settings.

What has landed ok in a round need not be run again, so an interrupted study resumes where it
stopped, and a complete one is measured anew, whole or in part, on re-created clusters, in the next
round.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from profilers.probe import PlannedRun
from profilers.probes import PROBES
from studies.messages import name_some
from studies.planned_runs import SystemInputs, required_runs
from studies.run_settings import differences, is_outdated
from studies.study import Study
from warehouse.records import Backend, BadInput, Purpose, Run


@dataclass(frozen=True)
class Round:
    """One round of a study on one backend and host.

    Attributes:
        study: what the round does of it.
        asking: what the systems of the study ask for.
        backend: where it is measured.
        host_id: on which host.
        repeat: its number, from 1.
        runs: what has landed ok in it, and earlier profiles where `Study.carries_train` or
            `Study.carries_profiles`.
        learned: ok profile runs, of any host, of the studies that this one learns from.
    """

    study: Study
    asking: SystemInputs = field(compare=False)
    backend: Backend
    host_id: str
    repeat: int
    runs: tuple[Run, ...]
    learned: tuple[Run, ...] = ()

    @cached_property
    def needs(self) -> tuple[PlannedRun, ...]:
        """What it needs, in the order in which it is run."""
        return required_runs(self.study, self.backend, self.asking)

    @property
    def missing(self) -> tuple[PlannedRun, ...]:
        """What it still needs."""
        return tuple(need for need in self.needs if self.run_of(need) is None)

    def missing_of(self, probe: str, purpose: Purpose) -> tuple[PlannedRun, ...]:
        """What it still needs of one probe, for predictors or to judge them."""
        wanted = probe, purpose
        return tuple(need for need in self.missing if (need.probe, need.purpose) == wanted)

    @cached_property
    def is_judged(self) -> bool:
        """Whether something has landed that judges it: its forecasts then rest on what it has."""
        return any(run.repeat == self.repeat and run.purpose == "measurement" for run in self.runs)

    @cached_property
    def superseded(self) -> dict[str, PlannedRun]:
        """The runs that measured other things than the study now asks for, and serve no more."""
        needed = () if self.is_judged else self.needs
        pairs = ((run, need) for need in needed for run in self._alike.get(_about(need), []))
        return {
            run.run_id: need
            for run, need in pairs
            if self._counts(run, need) and is_outdated(need, run)
        }

    def run_of(self, need: PlannedRun) -> Run | None:
        """Return the newest run that serves as this need, None if it is missing."""
        alike = self._alike.get(_about(need), [])
        done = [run for run in alike if need.is_done_by(run) and self._counts(run, need)]
        if not self.is_judged:
            done = [run for run in done if not is_outdated(need, run)]
        return max(done, key=lambda run: run.started_at, default=None)

    @cached_property
    def _alike(self) -> dict[tuple[str, Purpose, str | None], list[Run]]:
        """The runs by probe, purpose and scenario; None: those about nodes and links."""
        by_key: dict[tuple[str, Purpose, str | None], list[Run]] = {}
        for run in self.runs:
            by_key.setdefault((run.probe, run.purpose, run.scenario_id), []).append(run)
        return by_key

    def runs_of(self, *probes: str) -> dict[PlannedRun, Run]:
        """Return the runs of some probes that landed."""
        runs = {need: self.run_of(need) for need in self.needs if need.probe in probes}
        return {need: run for need, run in runs.items() if run}

    def _counts(self, run: Run, need: PlannedRun) -> bool:
        """Tell whether a run is of this round, or of an earlier one that this one goes on with."""
        carried = need.of_train or (need.profiles and self.study.carries_profiles)
        return run.repeat == self.repeat or carried


def _about(need: PlannedRun) -> tuple[str, Purpose, str | None]:
    scenario = need.subject.scenario
    return need.probe, need.purpose, None if scenario is None else scenario.scenario_id


def open_round(
    study: Study,
    asking: SystemInputs,
    backend: Backend,
    host_id: str,
    runs: Iterable[Run],
    first: int = 1,
) -> Round:
    """Return the first round that is not complete, of those from `first` on.

    Raises:
        BadInput: nothing has landed of a study that this one learns from.
    """
    runs = tuple(runs)
    landed = {run.study for run in runs if _is_learned(run, study, backend)}
    for name in study.learns_from:
        if name not in landed:
            raise BadInput(
                f"learns_from: no profile run of study {name} on {backend} is in this home; "
                "`stepcast load FOLDER` brings kept runs, `stepcast run` measures"
            )
    round_ = _round(study, asking, backend, host_id, first, runs)
    while not round_.missing:
        done = round_
        round_ = _round(study, asking, backend, host_id, done.repeat + 1, runs)
        if round_.study is done.study:
            vars(round_)["needs"] = done.needs  # known: listing them takes longest
    return round_


def refresh_round(round_: Round, runs: Iterable[Run]) -> Round:
    """Return the same round with what has landed meanwhile."""
    landed = _runs_of(round_.study, round_.backend, round_.host_id, runs)
    return replace(round_, runs=_runs_in(round_.study, round_.repeat, landed))


def latest_round(
    study: Study, asking: SystemInputs, backend: Backend, host_id: str, runs: Iterable[Run]
) -> Round | None:
    """Return the round that the newest run belongs to, or an earlier one that is not complete.

    None if nothing has landed. A study that was given more curves goes on with its first round.
    """
    runs = tuple(runs)
    landed = _runs_of(study, backend, host_id, runs)
    if not landed:
        return None
    newest = max(landed, key=lambda run: run.started_at)
    going_on = open_round(study, asking, backend, host_id, runs)
    return _round(study, asking, backend, host_id, min(newest.repeat, going_on.repeat), runs)


def shown_host(study: Study, backend: Backend, here: str, runs: Iterable[Run]) -> str:
    """Return the host whose rounds of a study are shown: this one, or where it has none, the last.

    Kept runs of a study come from the hosts that measured them.
    """
    key = ("ok", study.name, backend)
    landed = [run for run in runs if (run.status, run.study, run.backend) == key]
    if not landed or any(run.host_id == here for run in landed):
        return here
    return max(landed, key=lambda run: run.started_at).host_id


def whole_round(round_: Round, study: Study, runs: Iterable[Run]) -> Round:
    """Return the round itself; the first one where later rounds repeat a part of the study."""
    if study.in_round(round_.repeat) == study:
        return round_
    return _round(study, round_.asking, round_.backend, round_.host_id, 1, runs)


def rounds_of(study: Study, asking: SystemInputs, runs: Iterable[Run]) -> list[Round]:
    """Return every round of a study that has landed, whatever the backend and host."""
    runs = list(runs)
    keys = {(run.backend, run.host_id, run.repeat) for run in runs if run.study == study.name}
    return [
        _round(study, asking, backend, host, repeat, runs) for backend, host, repeat in sorted(keys)
    ]


def _round(
    study: Study,
    asking: SystemInputs,
    backend: Backend,
    host_id: str,
    repeat: int,
    runs: Iterable[Run],
) -> Round:
    runs = tuple(runs)
    landed = _runs_in(study, repeat, _runs_of(study, backend, host_id, runs))
    learned = tuple(run for run in runs if _is_learned(run, study, backend))
    return Round(study.in_round(repeat), asking, backend, host_id, repeat, landed, learned)


def _is_learned(run: Run, study: Study, backend: Backend) -> bool:
    kind = run.status, run.backend, run.purpose
    return run.study in study.learns_from and kind == ("ok", backend, "profile")


def _runs_in(study: Study, repeat: int, runs: Iterable[Run]) -> tuple[Run, ...]:
    def counts(run: Run) -> bool:
        carries = study.carries_train or study.carries_profiles
        earlier = carries and run.purpose == "profile" and run.repeat < repeat
        return run.repeat == repeat or earlier

    return tuple(run for run in runs if counts(run))


def _runs_of(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> list[Run]:
    wanted = ("ok", study.name, backend, host_id)
    return [run for run in runs if (run.status, run.study, run.backend, run.host_id) == wanted]


def changed_settings(round_: Round) -> Iterator[str]:
    """Yield a line for each way in which settings that say what is measured have changed.

    Runs that landed with others are measured again, unless the round is judged already.
    """
    again: dict[str, list[str]] = {}
    for run in round_.runs:
        if need := round_.superseded.get(run.run_id):
            changed = differences(run, need.settings) or {}
            essential = PROBES[need.probe].essential
            changes = ", ".join(text for name, text in changed.items() if name in essential)
            again.setdefault(changes, []).append(need.title)
    for changes, names in again.items():
        why = "measured again, since the study asks for something else"
        yield f"{name_some(names)}: landed with {changes}; {why}"
