"""Probe `tf_operations`: the operations of a training step on one device, without servers.

A share of a core is a quota of every 10 ms: operations shorter than that take their full speed or
wait for the next period, and single times say little. So operations are traced before the program
is held to its share; untraced steps before and after tell how much longer the share makes all.
Single times of operations and traces are not kept: hundreds of steps of thousands of operations are
megabytes.
"""

import shutil

import polars as pl
from pydantic import Field

from profilers.nodes.tf_jobs import StepTime, SyncJob, mean_s
from profilers.operation_profile import WARM_UP_STEPS, operation_runs, operation_tables, time_steps
from profilers.probe import STEP_S, Measured, PlannedRun, Probe, Session, one_by_one
from profilers.scenarios import is_all_reduce
from profilers.tables import traced_step_table
from warehouse import limits
from warehouse.records import Record

_Trace = tuple[list[StepTime], pl.DataFrame, pl.DataFrame]
"""Traced steps: their times, table operation, and step, operation and us of each execution."""


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Trace steps of one device that trains alone, at full speed."""
    traced, untraced = need.settings["traced_steps"], need.settings["untraced_steps"]
    with SyncJob(session.cluster, need.scenario, [1], session.say) as job:
        nodes, (shapes, parameter_count) = job.cluster_node(1), job.shapes()
        timed = time_steps(
            session,
            need.scenario,
            traced,
            untraced,
            run=lambda steps: job.run(1, steps)[0],
            trace=lambda steps: _trace(job, steps),
            confine=job.confine,
        )
    operation = timed.traces[0][1]
    steps = [step for times, _, _ in timed.traces for step in times]
    tables = {
        **operation_tables(
            need.scenario,
            parameter_count,
            [durations for _, _, durations in timed.traces],
            timed,
            held_s=mean_s(timed.held),
            free_s=mean_s(timed.free),
            traced_s=mean_s(steps),
        ),
        "operation": with_sizes(operation, shapes),
        "operation_shape": operation_shape(operation, shapes),
        "cluster_node": nodes,
        # Untraced steps at full speed come before those at the node's share.
        "step": traced_step_table(steps, [*timed.free, *timed.held]),
    }
    config = {"traced_steps": traced, "untraced_steps": untraced, "warm_up_steps": WARM_UP_STEPS}
    return Measured(tables, config)


def _trace(job: SyncJob, steps: int) -> _Trace:
    """Run steps, read what their operations took, and delete the traces."""
    from profilers.readers import run_metadata  # loads protobuf

    times, files = job.trace(job.nodes[0], steps)
    trace = run_metadata.read(files, [time.start_us for time in times])
    shutil.rmtree(files[0].parent)
    durations = trace.timing.select("operation", pl.col("duration_us").alias("us"), "step")
    return times, trace.operation, durations.cast({"operation": pl.Int32})


def operation_shape(operation: pl.DataFrame, shapes: pl.DataFrame) -> pl.DataFrame:
    """Return table operation_shape of the operations whose shapes are known, by their names."""
    columns = ["operation", "inputs", "outputs", "attributes"]
    return operation.select("operation", "name").join(shapes, on="name").select(columns)


def with_sizes(operation: pl.DataFrame, shapes: pl.DataFrame) -> pl.DataFrame:
    """Return table operation with the bytes of inputs and outputs that are known."""
    known = shapes.select("name", "input_bytes", "output_bytes")
    return operation.join(known, on="name", how="left", maintain_order="left")


class Settings(Record):
    """How many steps are traced, and how many are run as they are beside them.

    With `test`, operations of test scenarios are timed too: they judge what is forecast of
    operations, and fits never see them.
    """

    traced_steps: int = Field(default=200, ge=2, le=limits.REPEATS)
    untraced_steps: int = Field(default=20, ge=2, le=limits.REPEATS)
    test: bool = False


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
    needs=operation_runs(
        "tf_operations", lambda asked, _: (asked.traced_steps + asked.untraced_steps) * STEP_S
    ),
    run=one_by_one(_measure),
    concerns=lambda scenario: is_all_reduce(scenario, "tensorflow"),
)
