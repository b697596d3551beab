"""Traces of PyTorch's profiler (Kineto, JSON) → operation, timing, operation_time, operation_shape.

An operation is one execution within a step: the k-th of its name, device and shapes, as a node of
an unrolled graph would be, so that it has at most one time per step and statistics over steps. Two
kinds are kept. Operators of the host (`cpu_op`): name and type are the operator's; their times
include the operators they call. What the GPU did (kernels, copies, memsets): the name is the
kernel's, type and shapes those of the innermost operator that launched it, found through the
runtime call with the same correlation, because some releases write another `External id` there.

Steps are the annotations `ProfilerStep#n`; a launch counts for the step in which it was asked for.
Without them the whole trace is step 0. `timing` rounds to microseconds, `operation_time` does not.

Of a trace that was made on a node type, `sample` has how long the host took to issue operators, as
probe `inventory` has it.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import polars as pl

from profilers.readers.contract import MOST_US, ImportedRun, ReaderOptions, WholeNumber, clean
from profilers.readers.json_stream import Members, convert_value
from profilers.readers.kineto_events import Events
from profilers.tables import issue_rows, operation_time, sample_table, step_table
from warehouse.records import BadInput

_IDENTITY = ("device", "name", "type", "shape", "occurrence")


class _Job(msgspec.Struct):
    """What a trace says of the job."""

    rank: Annotated[int, msgspec.Meta(ge=0, le=2**15 - 1)] | None = None
    world_size: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] | None = None


class _GpuProperties(msgspec.Struct):
    """What a trace says of a GPU."""

    name: str = ""


class _TraceHeader(msgspec.Struct):
    """What a trace says besides its events."""

    distributedInfo: _Job | None = None
    deviceProperties: list[_GpuProperties] | None = None
    baseTimeNanoseconds: WholeNumber | None = None


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run of one rank.

    Raises:
        BadInput: not JSON, an event that is none, or no operator and no kernel in it.
    """
    events, about, fields = Events(path), _TraceHeader(), dict[str, Any]()
    members = Members(path, "traceEvents")
    for key, value in members:
        if key == "traceEvents":
            events.add(value, members)
        elif key in _TraceHeader.__struct_fields__:
            fields[key] = value
            about = convert_value(fields, _TraceHeader, members)
    operations = events.frame()
    if operations.is_empty():
        raise BadInput(
            f"{path}: neither cpu_op nor kernel among its events; expected a trace that "
            "torch.profiler exported (those of TensorFlow and JAX are not read)"
        )
    if len(events.processes) > 1:
        named = ", ".join(f"{str(pid)!r:.40}" for pid in [*events.processes][:4])
        raise BadInput(
            f"{path}: steps or operators of {len(events.processes):,} processes ({named}): traces "
            "of several ranks in one file, whose kernels nothing tells apart; import each rank's "
            "own trace"
        )
    job = about.distributedInfo or _Job()
    steps = events.steps() or [(0, *events.span())]
    inside = _in_steps(operations, steps)
    if inside.is_empty():
        raise BadInput(
            f"{path}: none of its {operations.height:,} operations began in one of its "
            f"{len(steps)} steps (ProfilerStep); is it the whole trace?"
        )
    if inside.filter(pl.col("since").abs() > MOST_US).height:
        raise BadInput(
            f"{path}: operations start more than 2,147 s after their step; record fewer steps, "
            "or mark them (ProfilerStep)"
        )
    tables = {name: frame for name, frame in _tables(inside, events) if not frame.is_empty()}
    if events.steps():
        base_us = (about.baseTimeNanoseconds or 0) / 1000
        tables["step"] = step_table(
            (job.rank or 0, step, None, True, round(base_us + start), round(base_us + end))
            for step, start, end in steps
        )
    outside = operations.height - inside.height
    events.left_out.add("operations outside of the steps", count=outside)
    if options.worker is not None:
        if "operation_shape" not in tables:
            raise BadInput(f"{path}: no shapes in it; profile with record_shapes=True")
        if not (times_s := events.issue_times()):
            raise BadInput(f"{path}: no operator in it launched anything on a GPU")
        tables["sample"] = sample_table(issue_rows(times_s))
    devices = sorted({clean(device.name) for device in about.deviceProperties or [] if device.name})
    yield ImportedRun(
        tables,
        {"rank": job.rank, "world_size": job.world_size, "events_outside_steps": outside},
        {"gpu": ", ".join(devices)} if devices else {},
        left_out=events.left_out(),
        notes=() if events.steps() else ("no ProfilerStep in it: taken as one step",),
    )


def _in_steps(events: pl.DataFrame, steps: Sequence[tuple[int, float, float]]) -> pl.DataFrame:
    """Give events their step, start in it and occurrence; leave out those of no step."""
    bounds = pl.DataFrame(
        steps,
        schema={"step": pl.Int32, "step_start": pl.Float64, "step_end": pl.Float64},
        orient="row",
    ).sort("step_start")
    return (
        events.sort("asked")
        .join_asof(bounds, left_on="asked", right_on="step_start")
        .filter(pl.col("asked") <= pl.col("step_end"))
        .sort("step", "start")
        .with_columns(
            (pl.col("start") - pl.col("step_start")).alias("since"),
            pl.int_range(pl.len()).over("step", *_IDENTITY[:-1]).alias("occurrence"),
        )
    )


def _tables(events: pl.DataFrame, traced: Events) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the four tables of events in steps."""
    known = (
        events.group_by(_IDENTITY, maintain_order=True)
        .agg(pl.col("bytes").first(), pl.col("since").min())
        .sort("since", maintain_order=True)
        .with_row_index("operation")
    )
    shapes = traced.shapes()
    yield (
        "operation",
        known.join(shapes.select("shape", "input_bytes"), on="shape", how="left").select(
            "operation",
            "name",
            "type",
            pl.lit("worker").alias("resource"),
            pl.lit(None, pl.Int16).alias("server"),
            pl.lit(None, pl.Int64).alias("size_bytes"),
            "device",
            pl.coalesce("bytes", "input_bytes").alias("input_bytes"),
        ),
    )
    yield (
        "operation_shape",
        known.join(shapes, on="shape").select(
            "operation", "inputs", pl.lit("[]").alias("outputs"), "attributes"
        ),
    )
    timed = events.join(
        known.select("operation", *_IDENTITY), on=_IDENTITY, nulls_equal=True
    ).with_columns((pl.col("end") - pl.col("start")).alias("duration"))
    yield (
        "timing",
        timed.select(
            "step",
            "operation",
            pl.col("since").round().cast(pl.Int64).alias("start_us"),
            pl.col("duration").round().cast(pl.Int64).alias("duration_us"),
        ).sort("step", "operation"),
    )
    yield "operation_time", operation_time([timed.select("operation", "step", us="duration")])
