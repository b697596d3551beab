"""What a round will do, and about how long it takes, before anything of it has run."""

from collections.abc import Iterator
from dataclasses import dataclass

from assets.rounds import Part, Round, parts
from warehouse.records import Scenario

_LINK_OVERHEAD_S = 1.5
_START_S, _START_PER_WORKER_S = 8.0, 4.0
_STEP_S = 0.5
"""First guess of a traced or untraced step; what a study really takes corrects all guesses."""
_PREDICT_S = 6.0
_REPORT_S, _REPORT_PER_JOB_S = 2.0, 2.5
"""Judging, and figures, replays and sensitivities of the report."""


@dataclass(frozen=True)
class Task:
    """Something a round does, and the seconds it is expected to take."""

    name: str
    expected_s: float


def tasks(round_: Round) -> tuple[Task, ...]:
    """Return what is still to be done in a round, in order."""
    return tuple(_tasks(round_))


def prediction_name(system: str, scenario: Scenario) -> str:
    """Return what progress and plans call the prediction of a scenario."""
    return f"predict {scenario.label} by {system}"


REPORT_NAME = "judge and report"


def _tasks(round_: Round) -> Iterator[Task]:
    missing = round_.missing
    profiling = [part for part in missing if part.purpose == "profile"]
    measuring = [part for part in missing if part.purpose == "measurement"]
    yield from (Task(part.name, _profiling_s(part, round_)) for part in profiling)
    for part in parts(round_.study, round_.backend):
        if part.probe == "tf_throughput" and part.scenario is not None:
            yield Task(prediction_name("async_sgd", part.scenario), _PREDICT_S)
    started = set()
    for part in measuring:
        start_s = 0.0 if part.job in started else _start_s(max(part.job.workers))
        started.add(part.job)
        yield Task(part.name, start_s + _measuring_s(round_))
    yield Task(REPORT_NAME, _REPORT_S + _REPORT_PER_JOB_S * len(round_.study.jobs))


def _profiling_s(part: Part, round_: Round) -> float:
    study = round_.study
    if part.probe == "links":
        trials = 2 * len(study.links.flows) * study.links.trials
        return trials * (study.links.seconds + _LINK_OVERHEAD_S)
    if part.probe == "contention":
        trials = len(study.links.flows) * study.links.trials
        seconds = (study.links.contention_s or 0.0) + _LINK_OVERHEAD_S
        return _start_s(max(study.links.flows)) + trials * seconds
    steps = study.profile.traced_steps + study.profile.untraced_steps
    return _start_s(1) + steps * _STEP_S


def _measuring_s(round_: Round) -> float:
    """Windows, and about as long as one of them until throughput is stationary."""
    return (round_.study.measure.windows + 1) * round_.study.measure.window_s


def _start_s(workers: int) -> float:
    return _START_S + _START_PER_WORKER_S * workers
