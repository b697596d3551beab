"""Rounds of a study: which one is to be done, and what of it is missing.

What has landed ok in a round need not be run again, so an interrupted study resumes where it
stopped, and a complete one is measured anew, whole or in part, on re-created clusters, in the next
round.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Literal

from assets.study import Job, Study, contention_measured, links_measured
from warehouse.records import Backend, Purpose, Run, Scenario

Probe = Literal["links", "contention", "tf_trace", "tf_throughput"]
_PURPOSES: dict[Probe, Purpose] = {
    "links": "profile",
    "contention": "profile",
    "tf_trace": "profile",
    "tf_throughput": "measurement",
}
_VERBS: dict[Probe, str] = {"tf_trace": "profile", "tf_throughput": "measure"}


@dataclass(frozen=True)
class Part:
    """One run that a round needs: a probe on a link speed or on a scenario."""

    probe: Probe
    job: Job
    link_mbps: float | None
    scenario: Scenario | None

    @property
    def purpose(self) -> Purpose:
        """Whether predictors may see the run."""
        return _PURPOSES[self.probe]

    @property
    def name(self) -> str:
        """What progress and plans call it."""
        if self.scenario is not None:
            return f"{_VERBS[self.probe]} {self.scenario.label}"
        speed = "unshaped" if self.link_mbps is None else f"{self.link_mbps:g} Mb/s"
        workers = f", {self.job.worker}" if self.probe == "contention" else ""
        return f"probe {self.probe}, {speed}{workers}"

    def is_done_by(self, run: Run) -> bool:
        """Tell whether a run is this part, whatever its round."""
        if (run.status, run.probe, run.purpose) != ("ok", self.probe, self.purpose):
            return False
        if self.probe == "contention" and run.config.get("worker") != self.job.worker:
            return False
        if self.scenario is None:
            return run.config.get("link_mbps") == self.link_mbps
        return run.scenario_id == self.scenario.scenario_id


@dataclass(frozen=True)
class Round:
    """One round of a study on one backend and host."""

    study: Study
    backend: Backend
    host_id: str
    repeat: int
    runs: tuple[Run, ...]
    """What has landed ok in it."""

    @property
    def missing(self) -> tuple[Part, ...]:
        """What it still needs, in the order in which it is run."""
        return tuple(part for part in parts(self.study, self.backend) if self.run_of(part) is None)

    def missing_of(self, probe: Probe) -> tuple[Part, ...]:
        """What it still needs of one probe."""
        return tuple(part for part in self.missing if part.probe == probe)

    def run_of(self, part: Part) -> Run | None:
        """Return the newest run that is this part, None if it is missing."""
        done = [run for run in self.runs if part.is_done_by(run)]
        return max(done, key=lambda run: run.started_at, default=None)

    def runs_of(self, probe: Probe) -> dict[Part, Run]:
        """Return the runs of one probe that landed."""
        found = {part: self.run_of(part) for part in parts(self.study, self.backend)}
        return {part: run for part, run in found.items() if run and part.probe == probe}


def parts(study: Study, backend: Backend) -> tuple[Part, ...]:
    """Return the runs that each round of a study needs, in the order in which they are run."""
    found = dict.fromkeys(
        [*_links(study, backend), *_contention(study, backend), *_profiles(study, backend)]
    )
    return tuple(found | dict.fromkeys(_measurements(study, backend)))


def profile_parts(job: Job, study: Study, backend: Backend) -> tuple[Part, ...]:
    """Return the runs that a job is fitted to: its profile, and links of the speeds it concerns."""
    profiled = job.profiled(backend)
    return tuple(
        part
        for part in parts(study, backend)
        if (part.probe == "tf_trace" and part.scenario == profiled)
        or (part.probe == "links" and part.link_mbps in job.link_speeds(backend))
        or (
            part.probe == "contention"
            and part.link_mbps in job.link_speeds(backend)
            and part.job.worker == job.worker
        )
    )


def profiled_jobs(round_: Round) -> Round | None:
    """Return a round with only the jobs whose profiles have landed, None if none has."""
    study, backend = round_.study, round_.backend
    jobs = [
        job
        for job in study.jobs
        if all(
            round_.run_of(part)
            for one in job.as_profiled()
            for part in profile_parts(one, study, backend)
        )
    ]
    return replace(round_, study=study.model_copy(update={"jobs": tuple(jobs)})) if jobs else None


def open_round(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> Round:
    """Return the first round that is not complete, the next one if all are."""
    ours = _runs_of(study, backend, host_id, runs)
    rounds = (_round(study, backend, host_id, repeat, ours) for repeat in count(1))
    return next(one for one in rounds if one.missing)


def refreshed(round_: Round, runs: Iterable[Run]) -> Round:
    """Return the same round with what has landed meanwhile."""
    ours = _runs_of(round_.study, round_.backend, round_.host_id, runs)
    return replace(round_, runs=tuple(run for run in ours if run.repeat == round_.repeat))


def latest_round(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> Round | None:
    """Return the round that the newest run belongs to, None if nothing has landed."""
    ours = _runs_of(study, backend, host_id, runs)
    if not ours:
        return None
    newest = max(ours, key=lambda run: run.started_at)
    return _round(study, backend, host_id, newest.repeat, ours)


def rounds_of(study: Study, runs: Iterable[Run]) -> list[Round]:
    """Return every round of a study that has landed, whatever the backend and host."""
    runs = list(runs)
    keys = {(run.backend, run.host_id, run.repeat) for run in runs if run.study == study.name}
    return [
        _round(study, backend, host_id, repeat, _runs_of(study, backend, host_id, runs))
        for backend, host_id, repeat in sorted(keys)
    ]


def _round(study: Study, backend: Backend, host_id: str, repeat: int, runs: Sequence[Run]) -> Round:
    ours = tuple(run for run in runs if run.repeat == repeat)
    return Round(study.in_round(repeat), backend, host_id, repeat, ours)


def _runs_of(study: Study, backend: Backend, host_id: str, runs: Iterable[Run]) -> list[Run]:
    wanted = ("ok", study.name, backend, host_id)
    return [run for run in runs if (run.status, run.study, run.backend, run.host_id) == wanted]


def _links(study: Study, backend: Backend) -> Iterator[Part]:
    for link_mbps, job in links_measured(study, backend):
        yield Part("links", job, link_mbps, None)


def _contention(study: Study, backend: Backend) -> Iterator[Part]:
    for link_mbps, job in contention_measured(study, backend):
        yield Part("contention", job, link_mbps, None)


def _profiles(study: Study, backend: Backend) -> Iterator[Part]:
    """Yield one profile for all jobs that share it: they differ in the speed of their links."""
    jobs: dict[Scenario, Job] = {}
    for job in study.jobs:
        for one in job.as_profiled():
            jobs.setdefault(one.profiled(backend), job)
    for scenario, job in jobs.items():
        yield Part("tf_trace", job, scenario.link_mbps, scenario)


def _measurements(study: Study, backend: Backend) -> Iterator[Part]:
    for job in study.jobs:
        for scenario in job.scenarios(backend):
            yield Part("tf_throughput", job, scenario.link_mbps, scenario)
