"""Probe `tf_sync`: how long a step takes k nodes that train TensorFlow synchronously.

Every step ends when all nodes have averaged their gradients, so its time is that of the slowest.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import polars as pl

from profilers import clock
from profilers.clusters import Cluster
from profilers.nodes.tf_jobs import StepTime, SyncJob, check_sync_supported
from profilers.probe import (
    STEP_TIME,
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Say,
    Setting,
    finished_run,
    plan_scenario_runs,
)
from profilers.scenarios import STEP_SCHEMA, check_family, is_all_reduce, same_start
from profilers.steady.host import MeasuredValue, Patience
from profilers.steady.hostlock import host_lock
from profilers.windows import Settings, Windows
from warehouse.records import Backend, Scenario

DISCARDED_STEPS = 5
"""Steps of each scenario that are never counted."""
MIN_WINDOW_STEPS = 5
PATIENCE_S = 30.0
"""How long the windows of a scenario are measured again if they were disturbed."""

Replicas = Sequence[Sequence[StepTime]]
"""The steps of each replica; all have the same number."""


def measure(
    cluster: Cluster,
    scenarios: Sequence[Scenario],
    context: RunContext,
    windows: Windows,
    *,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[ProbeResult]:
    """Measure scenarios that differ only in the number of workers, on one start of the job.

    Args:
        cluster: the workers of the largest scenario.
        scenarios: all_reduce with framework tensorflow, the same job with different W.
        context: study and round.
        windows: of each scenario; they give a within-run spread, and have `MIN_WINDOW_STEPS` each
            at least.
        progress: told what runs now.

    Yields:
        One run per scenario as soon as it is measured, with tables `cluster_node`, `step`, `sample`
        (`step_time_s`, `idle_cpu_fraction`, `stolen_cpu_fraction` per window; of the run
        `worker_cpu_s_per_step`, of all workers together).

    Raises:
        ProbeFailed: the job failed.
        BadInput: the scenarios differ in more than W, need more workers than there are, or are of
            another strategy or framework.
    """
    largest = check_family(scenarios, len(cluster.of_role("worker")))
    world_sizes = sorted({scenario.strategy.workers for scenario in scenarios})
    with host_lock(progress), SyncJob(cluster, largest, world_sizes, progress) as job:
        job.confine()
        for scenario in scenarios:
            started_at = clock.now()
            progress(f"measure {scenario.label}")
            world_size = scenario.strategy.workers
            trained = _train(job, world_size, windows)
            nodes = job.cluster_node(world_size)
            yield _result(cluster, scenario, context, started_at, trained, nodes)


def step_s(replicas: Replicas) -> float:
    """Return the seconds from one step to the next, in the mean over all but the first step.

    A step has ended when it has on the last replica. The first is left out because replicas are
    told to start one after the other.
    """
    ends_us: list[int] = [
        max(step.end_us for step in steps) for steps in zip(*replicas, strict=True)
    ]
    return (ends_us[-1] - ends_us[0]) / 1e6 / (len(ends_us) - 1)


@dataclass(frozen=True)
class _Window:
    """Steps of a window, and the seconds of processor time that all replicas had in it."""

    replicas: Replicas
    cpu_s: float


@dataclass(frozen=True)
class _SyncWindows:
    """The steps that were discarded, and the windows that count."""

    discarded: Replicas
    windows: Sequence[MeasuredValue[_Window]]


def _train(job: SyncJob, world_size: int, windows: Windows) -> _SyncWindows:
    job.meet(world_size)
    discarded = job.run(world_size, DISCARDED_STEPS)
    steps = 1 + max(MIN_WINDOW_STEPS, round(windows.window_s / step_s(discarded)))
    patience = Patience(job.cluster.cpu_times, PATIENCE_S)
    window = partial(_window, job, world_size, steps)
    measured: list[MeasuredValue[_Window]] = []
    while not windows.are_enough([step_s(window.value.replicas) for window in measured]):
        measured.append(patience.measure_undisturbed(window))
    return _SyncWindows(discarded, measured)


def _window(job: SyncJob, world_size: int, steps: int) -> _Window:
    had_s = job.cpu_s(world_size)
    replicas = job.run(world_size, steps)
    return _Window(replicas, job.cpu_s(world_size) - had_s)


def _result(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    started_at: datetime,
    trained: _SyncWindows,
    nodes: pl.DataFrame,
) -> ProbeResult:
    replicas = [window.value.replicas for window in trained.windows]
    settings: dict[str, Setting] = {
        "windows": len(replicas),
        "window_steps": len(replicas[0][0]) - 1,
        "discarded_steps": DISCARDED_STEPS,
    }
    run = finished_run("tf_sync", cluster, scenario, context, started_at, settings)
    samples: list[tuple[str, str, int | None, float]] = [
        row
        for number, window in enumerate(trained.windows)
        for row in (
            ("step_time_s", "s", number, step_s(window.value.replicas)),
            ("idle_cpu_fraction", "1", number, window.idle),
            ("stolen_cpu_fraction", "1", number, window.stolen),
        )
    ]
    steps = sum(len(window[0]) for window in replicas)
    cpu_s = sum(window.value.cpu_s for window in trained.windows)
    samples.append(("worker_cpu_s_per_step", "s", None, cpu_s / steps))
    columns = ["metric", "unit", "window", "value"]
    tables = {
        "sample": pl.DataFrame(samples, schema=columns, orient="row"),
        "step": _step_frame([trained.discarded, *replicas]),
        "cluster_node": nodes,
    }
    return ProbeResult(run, scenario, tables)


def _step_frame(parts: Sequence[Replicas]) -> pl.DataFrame:
    """Return table step: the first part was discarded, the others are windows without their first.

    Steps are numbered through all parts.
    """
    rows = []
    first = 0
    for part, replicas in enumerate(parts):
        for worker, steps in enumerate(replicas):
            for number, step in enumerate(steps):
                window = part - 1 if part and number else None
                times = (step.start_us, step.end_us)
                rows.append((worker, first + number, window, False, *times))
        first += len(replicas[0])
    return pl.DataFrame(rows, schema=STEP_SCHEMA, orient="row")


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    run_settings, expected_s = settings.model_dump(), settings.expected_s
    return plan_scenario_runs("tf_sync", requested, run_settings, lambda _: expected_s, same_start)


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    for need in needs:
        check_sync_supported(need.scenario)


def _run(
    cluster: Cluster, needs: Sequence[PlannedRun], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    windows = Windows(**needs[0].settings)
    return measure(cluster, [need.scenario for need in needs], context, windows, progress=say)


PROBE = Probe(
    name="tf_sync",
    what="Seconds per step of TensorFlow on one and more nodes that average gradients.",
    kind="tensorflow",
    tables=("sample", "step", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=_run,
    concerns=lambda scenario: is_all_reduce(scenario, "tensorflow"),
    metric=STEP_TIME,
    check=_check,
)
