"""Files of TensorFlow's tracer that others made → operation, edge, timing of one step.

A Chrome timeline (`generate_chrome_trace_format`): a process is a device, an event of category Op
is one execution of the node that its args name. Tensors, counters and flow arrows are not kept:
edges come from the args' inputs.

A RunMetadata file: with partition graphs in it, as in our own traces, operations are the nodes of
the graphs, with sizes of transfers. Without, they are the executions recorded, and edges come from
their labels.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from profilers.readers import run_metadata
from profilers.readers.contract import (
    MOST_US,
    NO_EVENTS,
    Duration_us,
    ImportedRun,
    MemoryCounter,
    OmissionCounter,
    ReaderOptions,
    Time_us,
    clean,
)
from profilers.readers.json_stream import Members, convert_value
from profilers.readers.node_events import ONE_FILE_EACH, REPEATED, NodeEvent, NodeEvents, gpu_of
from warehouse.records import BadInput

_COMPUTE = " Compute"


class _TimelineEvent(msgspec.Struct):
    """What every event of a timeline says of itself."""

    ph: str = ""
    cat: str | None = None
    name: Any = None
    args: Any = None


class _Process(msgspec.Struct):
    """The name of a process."""

    name: str = ""


class _Naming(msgspec.Struct):
    """An event that names a process."""

    pid: int | str | None = None
    args: _Process | None = None


class _Node(msgspec.Struct):
    """The node of an execution; its inputs are members input0, input1, … beside."""

    name: str
    op: str


class _Execution(msgspec.Struct):
    """An event of an operation."""

    pid: int | str
    ts: Time_us
    dur: Duration_us
    args: _Node


def read_timeline(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run of one step.

    Raises:
        BadInput: not JSON, an event that is none, or no event of a TensorFlow operation in it.
    """
    devices: dict[str, str] = {}
    events, left_out = NodeEvents(path), OmissionCounter()
    members = Members(path, "traceEvents")
    for key, value in members:
        if key != "traceEvents":
            continue
        kind = convert_value(value, _TimelineEvent, members)
        if kind.ph == "M" and kind.name == "process_name":
            naming = convert_value(value, _Naming, members)
            process = clean((naming.args or _Process()).name)
            if f"{naming.pid}" in devices:
                raise BadInput(f"{members}: process {naming.pid} is named twice; {ONE_FILE_EACH}")
            devices[f"{naming.pid}"] = process.removesuffix(_COMPUTE)
        elif kind.ph == "X" and isinstance(kind.args, dict) and "op" in kind.args:
            events.add(_event(value, members), members)
        elif kind.ph == "X":
            left_out.add("events without an operation, of category", kind.cat or "")
        elif kind.ph not in NO_EVENTS:
            left_out.add("events of phase", kind.ph)
    if not events:
        raise BadInput(
            f"{path}: no event with args name and op; expected a timeline of TensorFlow (for "
            "PyTorch's traces, the format is kineto)"
        )
    events.rename(devices)
    left_out.add(REPEATED, count=events.take_once())
    yield ImportedRun(
        events.frames(),
        {"devices": events.devices()},
        left_out=left_out(),
    )


def _event(value: Any, where: object) -> NodeEvent:
    """Return an execution; its device is still the number of the process."""
    event = convert_value(value, _Execution, where)
    names = (f"input{i}" for i in itertools.count())
    inputs = [
        value["args"][name] for name in itertools.takewhile(value["args"].__contains__, names)
    ]
    return NodeEvent(
        device=f"{event.pid}",
        name=clean(event.args.name),
        type=clean(event.args.op),
        inputs=tuple(convert_value(inputs, list[str], where)),
        start_us=round(event.ts),
        duration_us=round(event.dur),
    )


def read_run_metadata(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run of one step, that begins with its first operation.

    Raises:
        BadInput: not a whole RunMetadata protobuf, or nothing was timed in it.
    """
    metadata = run_metadata.parse(path)
    left_out = OmissionCounter()
    began_us = _check(metadata, path)
    if metadata.partition_graphs:
        trace = run_metadata.read([path], [began_us])
        tables = {"operation": trace.operation, "edge": trace.edge, "timing": trace.timing}
        executions = sum(len(device.node_stats) for device in metadata.step_stats.dev_stats)
        left_out.add(
            "executions of no node of the partition graphs", count=executions - trace.timing.height
        )
        if trace.timing.is_empty():
            raise BadInput(
                f"{path}: none of its {executions:,} executions is of a node of its partition "
                "graphs; are both of one run?"
            )
        yield ImportedRun(tables, {"partition_graphs": True}, left_out=left_out())
    else:
        events = NodeEvents(path)
        _add_all(metadata.step_stats, events, path)
        left_out.add(REPEATED, count=events.take_once())
        yield ImportedRun(
            events.frames(),
            {"partition_graphs": False},
            left_out=left_out(),
        )


def _check(metadata: Any, path: Path) -> int:
    """Return when the first operation began, microseconds.

    Raises:
        BadInput: nothing was timed, it is more than one run, times do not fit their columns, or
            there is too much of it.
    """
    kept = MemoryCounter(path)
    for node in (node for graph in metadata.partition_graphs for node in graph.node):
        kept.event(1 + len(node.input))
    first_us, last_us = 2**63, -(2**63)
    devices = set[str]()
    for device in metadata.step_stats.dev_stats:
        # Workers name lanes of their GPUs alike, but not what computes on the host.
        if device.device in devices and gpu_of(device.device) is None:
            raise BadInput(
                f"{path}: device {device.device[:80]!r} is listed twice; {ONE_FILE_EACH}"
            )
        devices.add(device.device)
        for entry in device.node_stats:
            kept.event()
            first_us = min(first_us, entry.all_start_micros)
            last_us = max(last_us, entry.all_start_micros)
            if not 0 <= entry.all_end_rel_micros <= MOST_US:
                raise BadInput(
                    f"{path}: {entry.node_name[:80]!r} takes {entry.all_end_rel_micros} us; "
                    f"expected 0 to {MOST_US}"
                )
    if first_us > last_us:
        raise BadInput(
            f"{path}: no operation was timed; run the session with "
            "RunOptions(trace_level=RunOptions.FULL_TRACE)"
        )
    if last_us - first_us > MOST_US:
        raise BadInput(f"{path}: more than 2,147 s between operations; {ONE_FILE_EACH}")
    return first_us


def _add_all(stats: Any, events: NodeEvents, path: Path) -> None:
    for device in stats.dev_stats:
        launched = gpu_of(device.device) is not None
        for entry in device.node_stats:
            name = entry.node_name
            kind, inputs = _node_of(entry.timeline_label)
            if launched:
                # Kernels are named node:type.
                name, _, kind = name.partition(":")
                inputs = ""
            elif name == "RecvTensor":
                kind, inputs = name, ""
            event = NodeEvent(
                device=device.device,
                name=name,
                type=kind or "unknown",
                inputs=tuple(filter(None, inputs.split(", "))),
                start_us=entry.all_start_micros,
                duration_us=entry.all_end_rel_micros,
            )
            events.add(event, path)


def _node_of(label: str) -> tuple[str, str]:
    """Return type and inputs of a label `name = type(inputs)`; of another label nothing.

    Found from the end, as names may hold what separates; a pattern needs the square of the length.
    """
    closed = len(label) - 1 if label.endswith(")") else 0
    equals = label.rfind(" = ", 0, max(label.rfind("(", 0, closed), 0))
    if equals < 0:
        return "", ""
    opened = label.find("(", equals)
    return label[equals + 3 : opened], label[opened + 1 : closed]
