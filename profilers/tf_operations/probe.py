"""Probe `tf_operations`: the operations of a training step on one device, without servers.

A share of a core is a quota of every 10 ms: operations shorter than that take their full speed or
wait for the next period, and single times say little. So operations are traced before the program
is held to its share; untraced steps before and after tell how much longer the share makes all.
"""

import shutil
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.clusters import Cluster
from profilers.nodes.tf_jobs import Shapes, StepTime, SyncJob
from profilers.operation_tables import dnn_row, operation_time, plan_operation_runs, step_samples
from profilers.probe import (
    STEP_S,
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Setting,
    finished_run,
    one_by_one,
)
from profilers.readers import run_metadata
from profilers.scenarios import is_all_reduce
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from warehouse import limits
from warehouse.records import BadInput, Record, Scenario

WARM_UP_STEPS = 5
PIECE_STEPS = 10
"""Steps that are measured again together if something disturbs them; their traces are there at
once."""


def profile(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    *,
    traced_steps: int,
    untraced_steps: int,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Trace steps of one device that trains alone.

    Args:
        cluster: one worker.
        scenario: all_reduce with framework tensorflow and W = 1.
        context: study and round.
        traced_steps: steps under the full tracer, at full speed.
        untraced_steps: steps without it at full speed, in between; and as many at the node's share.
        progress: told what runs now.

    Returns:
        A run with tables `operation`, `operation_shape`, `operation_time`, `dnn`, `cluster_node`,
        `step` and `sample`: `step_time_s` of untraced steps at the node's share,
        `unconfined_step_time_s` of those at full speed, `traced_step_time_s`,
        `stolen_cpu_fraction`. Single times of operations and traces are not kept: hundreds of steps
        of thousands of operations are megabytes.

    Raises:
        ProbeFailed: the job failed.
        BadInput: W is not 1, or another strategy or framework.
    """
    if scenario.strategy.workers != 1:
        raise BadInput(f"a profile needs one worker, {scenario.label} has more")
    started_at = clock.now()
    with host_lock(progress), SyncJob(cluster, scenario, [1], progress) as job:
        nodes = job.cluster_node(1)
        steps = _steps(job, scenario.workload.dnn, traced_steps, untraced_steps, progress)
    settings: dict[str, Setting] = {
        "traced_steps": traced_steps,
        "untraced_steps": untraced_steps,
        "warm_up_steps": WARM_UP_STEPS,
    }
    run = finished_run("tf_operations", cluster, scenario, context, started_at, settings)
    operation = steps.pieces[0].operation
    tables = {
        "operation": with_sizes(operation, steps.shapes),
        "operation_shape": operation_shape(operation, steps.shapes),
        "operation_time": operation_time([piece.durations for piece in steps.pieces]),
        "dnn": dnn_row(scenario, steps.shapes.parameter_count),
        "cluster_node": nodes,
        "step": _step_frame(steps),
        "sample": step_samples(
            _mean_s(steps.held), _mean_s(steps.free), _mean_s(steps.traced), steps.stolen
        ),
    }
    return ProbeResult(run, scenario, tables)


@dataclass(frozen=True)
class _Piece:
    """Untraced steps at full speed, then traced ones; step, operation and us of each execution."""

    free: list[StepTime]
    traced: list[StepTime]
    operation: pl.DataFrame
    durations: pl.DataFrame


@dataclass(frozen=True)
class _Steps:
    """The pieces at full speed, and untraced steps at the node's share."""

    shapes: Shapes
    pieces: list[_Piece]
    held: list[StepTime]
    stolen: float

    @property
    def free(self) -> list[StepTime]:
        """The untraced steps at full speed."""
        return [time for piece in self.pieces for time in piece.free]

    @property
    def traced(self) -> list[StepTime]:
        """The traced steps."""
        return [time for piece in self.pieces for time in piece.traced]


def _steps(
    job: SyncJob, dnn: str, traced: int, untraced: int, progress: Callable[[str], None]
) -> _Steps:
    patience = Patience(job.cluster.cpu_times)
    progress(f"profile {dnn}: shapes")
    shapes = job.shapes()
    progress(f"profile {dnn}: {untraced} untraced steps, {traced} traced")
    job.run(1, WARM_UP_STEPS)
    pieces = []
    # In turn, so that steps with and without the tracer see the same moods of the host.
    for first in range(0, traced, PIECE_STEPS):
        last = min(first + PIECE_STEPS, traced)
        free = round(untraced * last / traced) - round(untraced * first / traced)
        pieces.append(patience.measure_undisturbed(partial(_piece, job, free, last - first)))
    progress(f"profile {dnn}: {untraced} steps at the node's share")
    job.confine()
    job.run(1, WARM_UP_STEPS)
    held = patience.pieces(lambda steps: job.run(1, steps)[0], untraced, PIECE_STEPS)
    stolen = [*(piece.stolen for piece in pieces), *(piece.stolen for piece in held)]
    return _Steps(
        shapes,
        [piece.value for piece in pieces],
        [time for piece in held for time in piece.value],
        statistics.fmean(stolen),
    )


def _piece(job: SyncJob, untraced: int, traced: int) -> _Piece:
    """Run steps, read what the operations of the traced ones took, and delete the traces."""
    free = job.run(1, untraced)[0] if untraced else []
    times, files = job.trace(traced)
    graph, timing = run_metadata.stream(files, [time.start_us for time in times])
    frame = pl.from_arrow(timing.read_all())
    assert isinstance(frame, pl.DataFrame)
    shutil.rmtree(files[0].parent)
    durations = frame.select("operation", pl.col("duration_us").alias("us"), "step")
    return _Piece(free, times, graph.operation, durations.cast({"operation": pl.Int32}))


def operation_shape(operation: pl.DataFrame, shapes: Shapes) -> pl.DataFrame:
    """Return table operation_shape of the operations whose shapes are known, by their names."""
    columns = ["operation", "inputs", "outputs", "attributes"]
    return operation.select("operation", "name").join(_known(shapes), on="name").select(columns)


def with_sizes(operation: pl.DataFrame, shapes: Shapes) -> pl.DataFrame:
    """Return table operation with the bytes of inputs and outputs that are known."""
    known = _known(shapes).select("name", "input_bytes", "output_bytes")
    return operation.join(known, on="name", how="left", maintain_order="left")


def _known(shapes: Shapes) -> pl.DataFrame:
    texts = dict.fromkeys(("name", "inputs", "outputs", "attributes"), pl.String)
    numbers = dict.fromkeys(("input_bytes", "output_bytes"), pl.Int64)
    return pl.DataFrame(shapes.operations, schema={**texts, **numbers}, orient="row")


def _mean_s(steps: Sequence[StepTime]) -> float:
    return statistics.fmean(step.end_us - step.start_us for step in steps) / 1e6


def _step_frame(steps: _Steps) -> pl.DataFrame:
    """Return table step; untraced steps at full speed come before those at the node's share."""
    rows = [
        (0, number, is_traced, time.start_us, time.end_us)
        for is_traced, times in ((True, steps.traced), (False, [*steps.free, *steps.held]))
        for number, time in enumerate(times)
    ]
    columns = ["worker", "step", "traced", "start_us", "end_us"]
    return pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        window=pl.lit(None, pl.Int16)
    )


class Settings(Record):
    """How many steps are traced, and how many are run as they are beside them.

    With `test`, operations of test scenarios are timed too: they judge what is forecast of
    operations, and fits never see them.
    """

    traced_steps: int = Field(default=200, ge=2, le=limits.REPEATS)
    untraced_steps: int = Field(default=20, ge=2, le=limits.REPEATS)
    test: bool = False


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    run_settings = settings.model_dump(exclude={"test"})
    steps_s = (settings.traced_steps + settings.untraced_steps) * STEP_S
    return plan_operation_runs(
        "tf_operations", requested, run_settings, lambda _: steps_s, test=settings.test
    )


PROBE = Probe(
    name="tf_operations",
    what="Operations of one TensorFlow device that trains alone, at full speed, and its steps.",
    kind="tensorflow",
    tables=(
        "operation_time",
        "operation",
        "operation_shape",
        "dnn",
        "cluster_node",
        "step",
        "sample",
    ),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: profile),
    concerns=lambda scenario: is_all_reduce(scenario, "tensorflow"),
    one_node=True,
)
