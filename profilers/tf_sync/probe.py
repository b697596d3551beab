"""Probe `tf_sync`: how long a step takes k nodes that train TensorFlow synchronously.

Every step ends when all nodes have averaged their gradients, so its time is that of the slowest.
"""

from collections.abc import Iterator, Sequence
from functools import partial

from profilers.nodes.tf_jobs import StepTime, SyncJob
from profilers.probe import (
    STEP_TIME,
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    scenario_runs,
)
from profilers.scenarios import is_all_reduce, largest, same_start
from profilers.steady.host import MeasuredValue, Patience
from profilers.tables import StepRow, sample_table, step_table, window_rows
from profilers.windows import Windows
from warehouse.records import Backend, BadInput

DISCARDED_STEPS = 5
"""Steps of each scenario that are never counted."""
MIN_WINDOW_STEPS = 5
PATIENCE_S = 30.0
"""How long the windows of a scenario are measured again if they were disturbed."""

Replicas = Sequence[Sequence[StepTime]]
"""The steps of each replica; all have the same number."""


def _run(session: Session, needs: Sequence[PlannedRun]) -> Iterator[Measured]:
    """Measure scenarios that differ only in the number of workers."""
    windows, scenarios = Windows(**needs[0].settings), [need.scenario for need in needs]
    world_sizes = [scenario.strategy.workers for scenario in scenarios]
    with SyncJob(session.cluster, largest(scenarios), world_sizes, session.say) as job:
        job.confine()
        for scenario, world_size in zip(scenarios, world_sizes, strict=True):
            session.begin(f"measure {scenario.label}")
            yield _measured(job, world_size, windows)


def _measured(job: SyncJob, world_size: int, windows: Windows) -> Measured:
    job.meet(world_size)
    discarded = job.run(world_size, DISCARDED_STEPS)
    steps = 1 + max(MIN_WINDOW_STEPS, round(windows.window_s / step_s(discarded)))
    patience = Patience(job.cluster.cpu_times, PATIENCE_S)
    window, cpu_s = partial(_window, job, world_size, steps), 0.0
    measured: list[tuple[float, MeasuredValue[Replicas]]] = []
    parts: list[Replicas] = [discarded]
    while not windows.are_enough([window_step_s for window_step_s, _ in measured]):
        again = patience.measure_undisturbed(window)
        replicas, window_cpu_s = again.value
        measured.append((step_s(replicas), MeasuredValue(replicas, again.idle, again.stolen)))
        parts.append(replicas)
        cpu_s += window_cpu_s
    counted = steps * len(measured)
    cpu_row = ("worker_cpu_s_per_step", "s", None, cpu_s / counted)
    tables = {
        "sample": sample_table([*window_rows(STEP_TIME, measured), cpu_row]),
        "step": step_table(_step_rows(parts)),
        "cluster_node": job.cluster_node(world_size),
    }
    config = {
        "windows": len(measured),
        "window_steps": steps - 1,
        "discarded_steps": DISCARDED_STEPS,
    }
    return Measured(tables, config)


def _window(job: SyncJob, world_size: int, steps: int) -> tuple[Replicas, float]:
    """Return the steps of a window, and the processor time that all replicas had in it."""
    nodes = job.nodes[:world_size]
    had_s = job.cpu_s(nodes)
    replicas = job.run(world_size, steps)
    return replicas, job.cpu_s(nodes) - had_s


def step_s(replicas: Replicas) -> float:
    """Return the seconds from one step to the next, in the mean over all but the first step.

    A step has ended when it has on the last replica. The first is left out because replicas are
    told to start one after the other.
    """
    ends_us: list[int] = [
        max(step.end_us for step in steps) for steps in zip(*replicas, strict=True)
    ]
    return (ends_us[-1] - ends_us[0]) / 1e6 / (len(ends_us) - 1)


def _step_rows(parts: Sequence[Replicas]) -> Iterator[StepRow]:
    """Yield steps: the first part was discarded, the others are windows without their first.

    Steps are numbered through all parts.
    """
    first = 0
    for part, replicas in enumerate(parts):
        for worker, steps in enumerate(replicas):
            for number, step in enumerate(steps):
                window = part - 1 if part and number else None
                yield worker, first + number, window, False, *step
        first += len(replicas[0])


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    for scenario in (need.scenario for need in needs):
        if (each := scenario.strategy.devices_per_node) > 1:
            raise BadInput(
                f"{scenario.label}: TensorFlow trains on one device per node, not {each}"
            )


PROBE = Probe(
    name="tf_sync",
    what="Seconds per step of TensorFlow on one and more nodes that average gradients.",
    kind="tensorflow",
    tables=("sample", "step", "cluster_node"),
    settings=Windows,
    needs=scenario_runs("tf_sync", lambda windows, _: windows.expected_s, same_start),
    run=_run,
    concerns=lambda scenario: is_all_reduce(scenario, "tensorflow"),
    metric=STEP_TIME,
    check=_check,
)
