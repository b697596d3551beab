"""Steps of gpu_h100 with the times of their operators, and how much faster half precision is.

An operator of a profiled step is told by its name and the sides of its tensors, so the trace of
that step says which types it has; where several calls of a row differ in type, its time is shared
in proportion to their rooflines.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

from models.gpu_step.channels_last import in_channels_last
from models.gpu_step.dataflow import WAITS
from models.gpu_step.device import Device, devices
from models.gpu_step.gpu_time import Timing, roofline_us
from models.gpu_step.measurements import MeasuredStep, Speedup
from models.gpu_step.operator_kinds import common_name
from models.gpu_step.operators import Work
from models.gpu_step.public_rows import STEP_KEY, Fields, RowsBySet, Shape, by_subject, traces_of
from models.gpu_step.step import StepWork, step_work
from networks.gpu_steps import GpuStep, Operator, Tensor
from warehouse.records import Precision

_REPEATS = "Activity Buffer Request"
"""Rows that repeat times of others."""
_CALLS_ALIKE = 0.6, 1.6
_FILLING = ("nll_loss_backward", "embedding_dense_backward")
"""Operators that fill their result with zeros first, which is a row of its own of the profiler."""


def profiled_steps(rows: RowsBySet) -> tuple[tuple[MeasuredStep, ...], list[Timing]]:
    traces = traces_of(rows["gpu_h100", "traces"])
    profiled: dict[tuple[Any, ...], list[Fields]] = defaultdict(list)
    for row in rows["gpu_h100", "operations"]:
        if row["operation"] != _REPEATS:
            profiled[*(row[key] for key in STEP_KEY), row["optimizer"]].append(row)
    steps: list[MeasuredStep] = []
    timings: list[Timing] = []
    keys = (*STEP_KEY, "optimizer", "layout", "family", "device")
    for subject, metrics in by_subject(rows["gpu_h100", "steps"], *keys).items():
        *step, optimizer, layout, family, device_name = subject
        trace = traces.get(tuple(step))
        if trace is None:
            continue
        trace, device = _with_waits(trace), devices()[device_name]
        work = step_work(trace, optimizer, step[3])
        if layout == "channels_last":
            work = in_channels_last(work)
        seen = profiled.get((*step, optimizer)) if layout == "contiguous" else None
        steps.append(
            MeasuredStep(
                "gpu_h100",
                step[0],
                family,
                step[2],
                device,
                work,
                1e6 * metrics["step_time_s"],
                size=step[1],
                precision=step[3],
                optimizer=optimizer,
                memory_format=layout,
                trace=trace,
                synchronised_us=1e6 * metrics["synchronised_step_time_s"],
                peak_bytes=int(metrics["peak_memory_bytes"]),
                gpu_us=1e6 * sum(row["value"] for row in seen) if seen else None,
            )
        )
        if seen:
            timings += _profiled(seen, trace, work, device, family)
    return tuple(steps), timings


def speedups(rows: RowsBySet) -> Iterator[Speedup]:
    """Yield what NVIDIA published of one GPU; half precision is float16 where it is not traced."""
    traces = traces_of(rows["nvidia", "traces"])
    keys = ("network", "device", "sequence_length")
    batches = ("batch_full", "accumulate_full", "batch_half", "accumulate_half")
    table = rows["nvidia", "training_performance_nvidia"]
    for subject, metrics in by_subject(table, *keys, *batches).items():
        network, device, words, *sizes = subject
        passes = []
        for i, precision in enumerate(("float32", "float16")):
            samples = sizes[2 * i] // sizes[2 * i + 1]
            trace = traces.get((network, words, samples, precision))
            if trace is not None:
                tensor_cores = precision == "float32" and "tf32" in devices()[device].peak
                as_trained: Precision = "tf32" if tensor_cores else precision  # type: ignore[assignment]
                passes.append((step_work(trace, None, as_trained), samples))
        if len(passes) == 2:
            measured = metrics["samples_per_s_half"] / metrics["samples_per_s_full"]
            yield Speedup(network, devices()[device], passes[0], passes[1], measured)


def _profiled(
    rows: Sequence[Fields], trace: GpuStep, work: StepWork, device: Device, family: str
) -> Iterator[Timing]:
    """Yield times of the operators of a profiled step whose rows can be told."""
    recorded: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for row in rows:
        key = _row_key(row["operation"], row["input_shapes"])
        recorded[key][0] += row["calls"]
        recorded[key][1] += 1e6 * row["value"]
    traced: dict[tuple[Any, ...], list[tuple[Work, float]]] = defaultdict(list)
    fills: dict[tuple[Any, ...], set[tuple[Any, ...]]] = defaultdict(set)
    for place, (traced_work, calls) in enumerate(zip(work.works, work.calls, strict=True)):
        if traced_work.kind == "none":
            continue
        if place < len(trace.operators):
            operator = trace.operators[place]
            key = _operator_key(operator)
            traced[key].append((traced_work, calls))
            if operator.name in _FILLING:
                fills[key].add(("fill", operator.outputs[0].numbers))
        else:
            traced[(traced_work.name,)].append((traced_work, calls))
    for key, works in traced.items():
        if key not in recorded:
            continue
        calls, us = recorded[key]
        us += sum(recorded[fill][1] for fill in fills[key] - traced.keys() if fill in recorded)
        expected = sum(count for _, count in works)
        if not _CALLS_ALIKE[0] < calls / expected < _CALLS_ALIKE[1]:
            continue
        each = roofline_us([traced_work for traced_work, _ in works], [device])[0]
        total = sum(count * share_us for (_, count), share_us in zip(works, each, strict=True))
        for (traced_work, count), share_us in zip(works, each, strict=True):
            timed_us = us / calls * expected * share_us / total
            yield Timing(traced_work, device, timed_us, count, family)


def _row_key(operation: str, sides: str | None) -> tuple[Any, ...]:
    shapes = [
        tuple(int(side) for side in part.split("x"))
        for part in map(str.strip, (sides or "").split(";"))
        if part[:1].isdigit() and all(side.isdigit() for side in part.split("x"))
    ]
    return _key(common_name(operation), shapes)


def _with_waits(trace: GpuStep) -> GpuStep:
    """Return a trace with waits for the numbers by which a table is read and its gradient written.

    The host makes them, and copies them to the GPU for each layer (rows of `copy_` in the profile
    of BEiT). It waits for each copy, as of all memory that is not pinned.
    """
    operators = (*trace.operators, Operator(WAITS, (Tensor((), "int64"),), ()))
    is_by_number = [each.name in ("index", "index_put") for each in operators]
    if not any(each.name == "index_put" for each in operators):
        return trace
    order = [
        each
        for number in trace.order
        for each in ((len(trace.operators), number) if is_by_number[number] else (number,))
    ]
    return replace(trace, operators=operators, order=tuple(order))


def _operator_key(operator: Operator) -> tuple[Any, ...]:
    name = common_name(operator.name)
    shapes = [tensor.shape for tensor in operator.inputs]
    if name == "fill" and operator.outputs:
        shapes = [operator.outputs[0].shape]
    return _key(name, shapes)


def _key(name: str, shapes: Sequence[Shape]) -> tuple[Any, ...]:
    """Return what a row of the profiler and a traced operator have in common."""
    if name.startswith("_foreach") or name.startswith("nll"):
        return (name,)
    if name in ("cat", "clamp", "arange", "all"):
        return (name,)
    if name == "add" and (not shapes or prod(shapes[0]) == 1):
        return (name,)
    if name.startswith("attention"):
        first = 1 if name == "attention_backward" else 0
        return (name, *(prod(shape) for shape in shapes[first : first + 2]))
    chosen: Mapping[str, tuple[int, int]] = {
        "mm": (0, 2),
        "bmm": (0, 2),
        "addmm": (1, 3),
        "convolution": (0, 2),
        "convolution_backward": (0, 3),
        "gather": (0, 1),
        "index": (0, 1),
        "batch_norm": (0, 1),
        "batch_norm_backward": (0, 1),
        "layer_norm": (0, 1),
        "layer_norm_backward": (0, 1),
    }
    if name in chosen:
        start, end = chosen[name]
        return (name, *shapes[start:end])
    if name in ("copy", "fill"):
        return (name, prod(shapes[0]) if shapes else 1)
    return (name, *sorted((prod(shape) for shape in shapes[:2]), reverse=True))
