"""What a round will do, and about how long it takes, before anything of it has run."""

from collections.abc import Iterator
from dataclasses import dataclass

from studies.foremost import FOREMOST
from studies.parts import Part, judged_parts
from studies.rounds import Round
from studies.study import Study
from warehouse.records import Scenario

_LINK_OVERHEAD_S = 1.5
_START_S, _START_PER_WORKER_S = 8.0, 4.0
_STEP_S = 0.5
"""First guess of a traced or untraced step; what a study really takes corrects all guesses."""
_REDUCE_S = 0.1
"""First guess of an all-reduce, of all sizes."""
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
    study, missing = round_.study, round_.missing
    yield from (Task(part.name, _profiling_s(part, study)) for part in missing if part.profiles)
    for part in judged_parts(study, round_.backend):
        assert part.scenario is not None
        yield Task(prediction_name(FOREMOST[part.curve.kind], part.scenario), _PREDICT_S)
    started = set()
    for part in missing:
        if not part.profiles:
            start_s = 0.0 if part.curve in started else _start_s(max(part.curve.workers))
            started.add(part.curve)
            yield Task(part.name, start_s + _measuring_s(study))
    yield Task(REPORT_NAME, _REPORT_S + _REPORT_PER_JOB_S * len(study.curves))


def _profiling_s(part: Part, study: Study) -> float:
    links = study.links
    match part.probe:
        case "links" if links is not None:
            return 2 * len(links.flows) * links.trials * (links.seconds + _LINK_OVERHEAD_S)
        case "contention" if links is not None:
            trials = sum(flows > 1 for flows in links.flows) * links.trials
            seconds = (links.contention_s or 0.0) + _LINK_OVERHEAD_S
            return _start_s(max(links.flows)) + trials * seconds
        case "allreduce" if study.allreduce is not None:
            grid = study.allreduce
            points = len(grid.sizes_bytes) * len(grid.concurrent)
            return _start_s(int(part.config["world_size"])) + points * grid.trials * _REDUCE_S
        case "torch_compute" if study.compute is not None:
            passes = study.compute
            steps = len(passes.batch_sizes) * (passes.trials + passes.watched_trials)
            return _start_s(1) + max(steps * _STEP_S, passes.most_s or 0.0)
        case "torch_memory" if study.compute is not None:
            return _start_s(1) * 2 * (study.compute.largest_up_to or 1).bit_length()
        case "slowdown" if study.compute is not None:
            workers = part.scenario.strategy.workers if part.scenario else 1
            return _start_s(workers) + 4 * (study.compute.slowdown_trials or 0) * _STEP_S
        case "tf_trace" | "tf_operations" | "torch_operations" if study.profile is not None:
            steps = study.profile.traced_steps + study.profile.untraced_steps
            return _start_s(1) + steps * _STEP_S
    return _start_s(max(part.curve.workers)) + _measuring_s(study)


def _measuring_s(study: Study) -> float:
    """Windows, and about as long as one of them until throughput is stationary; or iterations."""
    if study.iterate is not None:
        return study.iterate.most_s or study.iterate.iterations * _STEP_S
    assert study.measure is not None
    asked = study.measure
    return ((asked.most_windows or asked.windows) + 1) * asked.window_s


def _start_s(workers: int) -> float:
    return _START_S + _START_PER_WORKER_S * workers
