"""Chrome timelines of TensorFlow (`generate_chrome_trace_format`) → operation, edge, timing.

A process of the timeline is a device; an event of category Op is one execution of the node that
its args name. Tensors, counters and flow arrows are not kept: edges come from the args' inputs.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from profilers.readers.contract import (
    NO_EVENTS,
    Duration_us,
    ImportedRun,
    OmissionCounter,
    ReaderOptions,
    Time_us,
    clean,
)
from profilers.readers.json_stream import Members, convert_value
from profilers.readers.node_events import ONE_FILE_EACH, REPEATED, NodeEvent, NodeEvents
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


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
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
