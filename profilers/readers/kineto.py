"""Traces of PyTorch's profiler (Kineto, JSON) → operation, timing, operation_time, operation_shape.

An operation is one execution within a step: the k-th of its name, device and shapes, as a node of
an unrolled graph would be, so that it has at most one time per step and statistics over steps. Two
kinds are kept. Operators of the host (`cpu_op`): name and type are the operator's; their times
include the operators they call. What the GPU did (kernels, copies, memsets): the name is the
kernel's, type and shapes those of the innermost operator that launched it, found through the
runtime call with the same correlation, because some releases write another `External id` there.

Steps are the annotations `ProfilerStep#n`; a launch counts for the step in which it was asked for.
Without them the whole trace is step 0. `timing` rounds to microseconds, `operation_time` does not.
"""

import re
from array import array
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np
import polars as pl

from profilers.readers.contract import (
    MOST,
    MOST_US,
    NO_EVENTS,
    Duration_us,
    ImportedRun,
    MemoryCounter,
    OmissionCounter,
    ReaderOptions,
    Time_us,
    WholeNumber,
    as_json,
    clean,
    product,
)
from profilers.readers.json_stream import Members, check_depth, convert_value
from warehouse.records import BadInput

_HOST, _GPU, _LAUNCH = 0, 1, 2
_KINDS = {
    "cpu_op": _HOST,
    "operator": _HOST,
    "kernel": _GPU,
    "gpu_memcpy": _GPU,
    "gpu_memset": _GPU,
    "memcpy": _GPU,
    "memset": _GPU,
    "runtime": _LAUNCH,
    "cuda_runtime": _LAUNCH,
    "cuda_driver": _LAUNCH,
    "hip_runtime": _LAUNCH,
}
_STEP = re.compile(r"ProfilerStep\s*#(\d+)")
_MOST_STEP_DIGITS = 9
_NONE = -1
_ELEMENT_BYTES: Mapping[str, int] = {
    "float": 4,
    "double": 8,
    "c10::Half": 2,
    "c10::BFloat16": 2,
    "long": 8,
    "long int": 8,
    "int": 4,
    "short": 2,
    "bool": 1,
    "unsigned char": 1,
    "signed char": 1,
}

_T = TypeVar("_T")
_Sizes = list[WholeNumber | list[WholeNumber | list[WholeNumber]]]


class _EventKind(msgspec.Struct):
    """What every event of a trace says of itself."""

    ph: str = ""
    cat: str | None = None


class _Arguments(msgspec.Struct):
    """Arguments of an event that count."""

    correlation: WholeNumber = _NONE
    bytes: WholeNumber = _NONE
    dims: _Sizes | None = msgspec.field(default=None, name="Input Dims")
    types: list[str] | None = msgspec.field(default=None, name="Input type")
    strides: Any = msgspec.field(default=None, name="Input Strides")
    values: Any = msgspec.field(default=None, name="Concrete Inputs")


class _Event(msgspec.Struct):
    """An event that lasts."""

    name: str
    pid: int | str
    tid: int | str
    ts: Time_us
    dur: Duration_us
    args: _Arguments | None = None


class Events:
    """Columns of the events that count: some 50 bytes an event, so large traces fit."""

    def __init__(self, path: Path) -> None:
        self.kind, self.thread = array("b"), array("i")
        self.name, self.shape = array("i"), array("i")
        self.start, self.end = array("d"), array("d")
        self.correlation, self.bytes = array("q"), array("q")
        self.processes: dict[int | str, None] = {}
        """Those of the host that have steps or operators."""
        self.left_out = OmissionCounter()
        self._kept = MemoryCounter(path)
        self._names: dict[str, int] = {}
        self._threads: dict[tuple[int | str, int | str], int] = {}
        self._shapes: dict[str, int] = {}
        self._shape_rows: list[tuple[int, str, str, int | None]] = []
        self._steps: dict[int, tuple[float, float]] = {}

    def add(self, value: object, where: object) -> None:
        """Keep an event if it is an operator, a launch, work of the GPU or a step.

        Raises:
            BadInput: it lacks a field, has another kind of value, or is one too many.
        """
        what = convert_value(value, _EventKind, where)
        if what.ph != "X":
            if what.ph not in NO_EVENTS:
                self.left_out.add("events of phase", what.ph)
            return
        category = (what.cat or "").lower()
        kind = _KINDS.get(category)
        if kind is None and category != "user_annotation":
            self.left_out.add("events of category", what.cat or "")
            return
        event = convert_value(value, _Event, where)
        if category in ("user_annotation", "operator") and (step := _STEP.match(event.name)):
            self._keep_step(step[1], event, where)
        elif kind is not None:
            self._keep(kind, event, where)
        else:
            self.left_out.add("events of category", category)

    def steps(self) -> list[tuple[int, float, float]]:
        """Number, start and end of each annotated step, in order of their numbers."""
        return [(step, *self._steps[step]) for step in sorted(self._steps)]

    def span(self) -> tuple[float, float]:
        """First start and last end of all events."""
        return min(self.start), max(self.end)

    def frame(self) -> pl.DataFrame:
        """Operators and work of the GPU: device, name, type, shape, start, end, asked, bytes.

        Times are microseconds of the trace; `asked` is when the host launched it. `shape` is NULL
        where no shapes were recorded.
        """
        kind, name, shape = (np.array(values) for values in (self.kind, self.name, self.shape))
        launched_us, by = np.array(self.start), np.arange(len(kind))
        by[kind != _HOST] = _NONE
        launcher = self._launchers()
        for i in np.flatnonzero(kind == _GPU):
            launched_us[i], by[i] = launcher.get(self.correlation[i], (launched_us[i], _NONE))
        kept = np.flatnonzero(kind != _LAUNCH)
        by = by[kept]
        names = pl.Series([clean(name) for name in self._names], dtype=pl.String)
        types = np.where(by == _NONE, name[kept], name[by])
        shapes = pl.Series(np.where(by == _NONE, _NONE, shape[by]), dtype=pl.Int32)
        sizes = pl.Series(np.array(self.bytes)[kept], dtype=pl.Int64)
        return pl.DataFrame(
            {
                "device": pl.Series(kind[kept] == _HOST).replace_strict(
                    {True: "host", False: "gpu"}, return_dtype=pl.String
                ),
                "name": names.gather(name[kept]),
                "type": names.gather(types),
                "shape": shapes.set(shapes == _NONE, None),
                "start": np.array(self.start)[kept],
                "end": np.array(self.end)[kept],
                "asked": launched_us[kept],
                "bytes": sizes.set(sizes == _NONE, None),
            }
        )

    def shapes(self) -> pl.DataFrame:
        """Every recorded shape: shape, inputs and attributes (JSON), input_bytes or NULL."""
        schema = {
            "shape": pl.Int32,
            "inputs": pl.String,
            "attributes": pl.String,
            "input_bytes": pl.Int64,
        }
        return pl.DataFrame(self._shape_rows, schema=schema, orient="row")

    def _keep_step(self, number: str, event: _Event, where: object) -> None:
        if len(number) > _MOST_STEP_DIGITS:
            raise BadInput(f"{where}: {event.name[:40]!r} has more digits than numbers of steps")
        self._kept.event()
        self.processes[event.pid] = None
        self._steps.setdefault(int(number), (event.ts, event.ts + event.dur))

    def _keep(self, kind: int, event: _Event, where: object) -> None:
        if event.dur > MOST_US:
            raise BadInput(f"{where}: {event.name[:40]!r} takes longer than 2,147 s")
        self._kept.event()
        args = event.args or _Arguments()
        if kind == _HOST:
            self.processes[event.pid] = None
        self.kind.append(kind)
        self.thread.append(self._number(self._threads, (event.pid, event.tid)))
        self.name.append(self._number(self._names, event.name))
        self.start.append(event.ts)
        self.end.append(event.ts + event.dur)
        self.correlation.append(args.correlation)
        self.bytes.append(args.bytes)
        self.shape.append(self._shape(args, where) if kind == _HOST else _NONE)

    def _number(self, numbers: dict[_T, int], key: _T) -> int:
        number = numbers.get(key)
        if number is None:
            self._kept.text(str(key))
            number = numbers[key] = len(numbers)
        return number

    def _shape(self, args: _Arguments, where: object) -> int:
        if args.dims is None:
            return _NONE
        others = {"strides": args.strides, "types": args.types, "values": args.values}
        known = {key: value for key, value in others.items() if value is not None}
        text = as_json([args.dims, known], where)
        number = self._shapes.get(text)
        if number is None:
            check_depth(known, where)
            self._kept.text(text)
            number = self._shapes[text] = len(self._shapes)
            sizes = _input_bytes(args.dims, args.types or [], where)
            row = (number, as_json(args.dims, where), as_json(known, where), sizes)
            self._shape_rows.append(row)
        return number

    def _launchers(self) -> dict[int, tuple[float, int]]:
        """Return for each correlation the time of its launch and the operator around it.

        A runtime call belongs to the innermost operator of its thread that is under way.
        """
        launchers: dict[int, tuple[float, int]] = {}
        for thread in self._by_thread().values():
            under_way: list[int] = []
            for i in sorted(thread, key=lambda i: (self.start[i], self.kind[i], -self.end[i])):
                while under_way and self.end[under_way[-1]] < self.start[i]:
                    under_way.pop()
                if self.kind[i] == _HOST:
                    under_way.append(i)
                elif self.correlation[i] != _NONE:
                    by = under_way[-1] if under_way else _NONE
                    launchers[self.correlation[i]] = self.start[i], by
        return launchers

    def _by_thread(self) -> dict[int, list[int]]:
        threads: dict[int, list[int]] = {}
        for i, kind in enumerate(self.kind):
            if kind != _GPU:
                threads.setdefault(self.thread[i], []).append(i)
        return threads


def _input_bytes(dims: _Sizes, types: Sequence[str], where: object) -> int | None:
    """Return the size of all tensors among the inputs; None where a type is not known."""
    total = 0
    for shape, kind in _tensors(dims, types):
        if kind not in _ELEMENT_BYTES:
            return None
        size = product([_ELEMENT_BYTES[kind], *shape])
        if size is None or total + size > MOST:
            raise BadInput(f"{where}: inputs of a size beyond 2^63 bytes")
        total += size
    return total


def _tensors(dims: _Sizes, types: Sequence[str]) -> Iterator[tuple[list[int], str]]:
    """Yield shape and element type of inputs; lists of tensors hold a list of shapes."""
    for shape, kind in zip(dims, types, strict=False):
        if isinstance(shape, list):
            sides = [side for side in shape if isinstance(side, int)]
            if len(sides) < len(shape):
                # Of a list's elements no type is recorded.
                yield [], "list of tensors"
            elif shape or kind in _ELEMENT_BYTES:
                yield sides, kind


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
    _check_times(inside, path)
    tables = {name: frame for name, frame in _tables(inside, events) if not frame.is_empty()}
    if events.steps():
        base_us = (about.baseTimeNanoseconds or 0) / 1000
        tables["step"] = _step_frame(steps, base_us, job.rank or 0)
    outside = operations.height - inside.height
    events.left_out.add("operations outside of the steps", count=outside)
    devices = sorted({clean(device.name) for device in about.deviceProperties or [] if device.name})
    yield ImportedRun(
        tables,
        {
            "rank": job.rank,
            "world_size": job.world_size,
            "events_outside_steps": outside,
        },
        {"gpu": ", ".join(devices)} if devices else {},
        left_out=events.left_out(),
        notes=() if events.steps() else ("no ProfilerStep in it: taken as one step",),
    )


def _check_times(events: pl.DataFrame, path: Path) -> None:
    """Refuse times in a step that their column cannot hold."""
    if events.filter(pl.col("since").abs() > MOST_US).height:
        raise BadInput(
            f"{path}: operations start more than 2,147 s after their step; record fewer steps, "
            "or mark them (ProfilerStep)"
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
    duration = pl.col("duration")
    yield (
        "operation_time",
        timed.group_by("operation")
        .agg(
            pl.len().alias("steps"),
            duration.mean().alias("mean_us"),
            duration.median().alias("median_us"),
            duration.std().fill_null(0).alias("sd_us"),
            duration.min().alias("min_us"),
            duration.quantile(0.95, "linear").alias("p95_us"),
        )
        .sort("operation"),
    )


def _step_frame(
    steps: Sequence[tuple[int, float, float]], base_us: float, rank: int
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "worker": [rank] * len(steps),
            "step": [step for step, _, _ in steps],
            "window": [None] * len(steps),
            "traced": [True] * len(steps),
            "start_us": [round(base_us + start) for _, start, _ in steps],
            "end_us": [round(base_us + end) for _, _, end in steps],
        },
        schema_overrides={"window": pl.Int16},
    )
