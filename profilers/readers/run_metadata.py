"""TensorFlow RunMetadata (its messages too) of a distributed job → operation, edge and timing.

Partition graphs give every operation and dependency exactly: `_Send` and `_Recv` nodes carry the
same `tensor_name`, which is also in the label of the `RecvTensor` entry that times the transfer.
A transfer is one operation, that of its `_Recv`; its `_Send` is an operation of the sender.
"""

import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import polars as pl
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from profilers.readers.contract import product, read_bytes
from warehouse import limits
from warehouse.records import BadInput, error_context

_DEVICE = re.compile(r"/job:(\w+)(?:/replica:\d+)?/task:(\d{1,4})\b")
_SLOT = re.compile(r"\d{0,9}")
_TRANSFER = re.compile(r"\] (?P<edge>edge_\S+) from ")


@dataclass(frozen=True)
class ExecutedOperation:
    """One operation of the executed graph; `resource` as in the table `operation`."""

    name: str
    type: str
    resource: str
    server: int | None
    inputs: tuple[str, ...]
    tensor_name: str | None


@dataclass(frozen=True)
class TracedRun:
    """Frames `operation`, `edge`, `timing` of a run's traced steps.

    `transfers` maps the name of each edge between devices to the operation that transfers it.
    """

    operation: pl.DataFrame
    edge: pl.DataFrame
    timing: pl.DataFrame
    transfers: Mapping[str, int]


def read(files: Sequence[Path], step_starts_us: Sequence[int]) -> TracedRun:
    """Read one RunMetadata file per traced step; the first also holds the partition graphs.

    Args:
        files: serialised RunMetadata protobufs, one per step.
        step_starts_us: when the client started each step, microseconds of UTC.

    Returns:
        The graph, and 32 bytes per timing; of the files, one at a time is in memory.

    Raises:
        BadInput: a file is cut off or not RunMetadata, or the first has no partition graphs.
    """
    first = parse(files[0])
    with error_context(str(files[0])):
        operations = list(_operations(first.partition_graphs))
        index = {operation.name: i for i, operation in enumerate(operations)}
        edges = _edges(operations, index)
        sizes = _sizes(first.step_stats, operations, index, edges)
    if not index:
        raise BadInput(f"{files[0]}: no partition graphs; trace with output_partition_graphs=True")
    transfers = {
        operation.tensor_name: index[operation.name]
        for operation in operations
        if operation.tensor_name is not None and operation.type == "_Recv"
    }
    timings = []
    for step, (file, start_us) in enumerate(zip(files, step_starts_us, strict=True)):
        metadata = parse(file) if step else first
        timings.append(_timing(metadata, step, start_us, index, transfers))
    return TracedRun(
        _operation_frame(operations, sizes), _edge_frame(edges), pl.concat(timings), transfers
    )


def parse(file: Path) -> Any:
    """Parse one RunMetadata file.

    Raises:
        BadInput: the file is cut off, too long or is something else.
    """
    metadata = RunMetadata()
    try:
        metadata.ParseFromString(read_bytes(file, limits.PROTOBUF_BYTES))
    except DecodeError:
        metadata.Clear()
    if not metadata.HasField("step_stats"):
        raise BadInput(
            f"{file}: not a whole TensorFlow RunMetadata (cut off, or another format); "
            "profile the step again"
        )
    return metadata


def _operations(graphs: Iterable[Any]) -> Iterator[ExecutedOperation]:
    for graph in graphs:
        for node in graph.node:
            resource, server = _resource(node)
            name = _attribute(node, "tensor_name") if node.op in ("_Send", "_Recv") else None
            yield ExecutedOperation(node.name, node.op, resource, server, tuple(node.input), name)


def _resource(node: Any) -> tuple[str, int | None]:
    """Return the resource a node uses and, unless that is the worker, the server it belongs to."""
    job, task = _device(node.device)
    if node.op == "_Recv":
        sender_job, sender_task = _device(_attribute(node, "send_device"))
        if (sender_job, job) == ("ps", "worker"):
            return "downlink", sender_task
        if (sender_job, job) == ("worker", "ps"):
            return "uplink", task
    return ("ps", task) if job == "ps" else ("worker", None)


@lru_cache(maxsize=1024)
def _device(name: str) -> tuple[str, int]:
    """Return job and task of a device: `/job:ps/replica:0/task:1/device:CPU:0`."""
    match = _DEVICE.match(name)
    if match is None:
        raise BadInput(f"device {name[:80]!r} of the trace names neither job nor task")
    return match[1], int(match[2])


def _attribute(node: Any, key: str) -> str:
    return next(
        (entry.value.s.decode(errors="replace") for entry in node.attr if entry.key == key), ""
    )


def _edges(
    operations: Sequence[ExecutedOperation], index: dict[str, int]
) -> list[tuple[int, int, int]]:
    """Return (source, target, output slot) of each dependency; slot −1 is a control edge."""
    sends = {o.tensor_name: index[o.name] for o in operations if o.type == "_Send"}
    edges: list[tuple[int, int, int]] = []
    for target, operation in enumerate(operations):
        for name in operation.inputs:
            source, _, slot = name.removeprefix("^").partition(":")
            if source not in index or not _SLOT.fullmatch(slot):
                raise BadInput(
                    f"input {name[:80]!r} of {operation.name[:80]!r} is no output of a node"
                )
            edges.append((index[source], target, -1 if name.startswith("^") else int(slot or 0)))
        if operation.type == "_Recv" and operation.tensor_name in sends:
            edges.append((sends[operation.tensor_name], target, 0))
    return edges


def _sizes(
    stats: Any,
    operations: Sequence[ExecutedOperation],
    index: dict[str, int],
    edges: Sequence[tuple[int, int, int]],
) -> dict[int, int]:
    """Return the bytes of each transfer, from the shape its producer wrote.

    The labels of transfers round; the shapes do not.
    """
    written = {
        (index[entry.node_name], output.slot): _tensor_bytes(output.tensor_description)
        for device in stats.dev_stats
        for entry in device.node_stats
        if entry.node_name in index
        for output in entry.output
    }
    source_of = {target: (source, slot) for source, target, slot in edges if slot >= 0}
    sizes: dict[int, int] = {}
    for target, operation in enumerate(operations):
        if operation.resource in ("downlink", "uplink") and target in source_of:
            send, _ = source_of[target]
            sizes[target] = written.get(source_of.get(send, (-1, 0)), 0)
    return sizes


def _tensor_bytes(description: Any) -> int:
    # The type of a reference to a tensor is that of the tensor + 100.
    size = ELEMENT_BYTES.get(description.dtype % 100, 0)
    size_bytes = product([size, *(dimension.size for dimension in description.shape.dim)])
    if size_bytes is None:
        raise BadInput("a tensor of a size beyond 2^63 bytes")
    return size_bytes


def _timing(
    metadata: Any, step: int, start_us: int, index: Mapping[str, int], transfers: Mapping[str, int]
) -> pl.DataFrame:
    # Arrays, not lists of objects: what the garbage collector need not walk is twice as fast.
    operations, starts_us, durations_us = array("q"), array("q"), array("q")
    for device in metadata.step_stats.dev_stats:
        for entry in device.node_stats:
            operation = index.get(entry.node_name)
            if entry.node_name == "RecvTensor":
                match = _TRANSFER.search(entry.timeline_label)
                operation = transfers.get(match["edge"]) if match else None
            if operation is not None:
                operations.append(operation)
                starts_us.append(entry.all_start_micros)
                durations_us.append(entry.all_end_rel_micros)
    columns = {
        "step": np.full(len(operations), step),
        "operation": np.array(operations, np.int64),
        "start_us": np.array(starts_us, np.int64) - start_us,
        "duration_us": np.array(durations_us, np.int64),
    }
    return pl.DataFrame(columns)


def _operation_frame(
    operations: Sequence[ExecutedOperation], sizes: dict[int, int]
) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "operation": range(len(operations)),
            "name": [operation.name for operation in operations],
            "type": [operation.type for operation in operations],
            "resource": [operation.resource for operation in operations],
            "server": [operation.server for operation in operations],
            "size_bytes": [sizes.get(i) for i in range(len(operations))],
        },
        schema_overrides={"operation": pl.Int32, "server": pl.Int16, "size_bytes": pl.Int64},
    )


def _edge_frame(edges: Sequence[tuple[int, int, int]]) -> pl.DataFrame:
    pairs = sorted({(source, target) for source, target, _ in edges})
    return pl.DataFrame(pairs, schema={"source": pl.Int32, "target": pl.Int32}, orient="row")


# The part of TensorFlow's RunMetadata that Stepcast reads, as protobuf messages of its own.
#
# Protobuf skips fields it was not told of, so naming few of them is what makes parsing fast, and no
# import of TensorFlow (seconds, and gigabytes to install) is needed to read a trace. Numbers and
# types are those of TensorFlow's tensorflow/core/{protobuf/config,framework/step_stats,…}.proto.


_PACKAGE = "stepcast"
_SCALARS = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "bytes": FieldDescriptorProto.TYPE_BYTES,
    "int32": FieldDescriptorProto.TYPE_INT32,
    "int64": FieldDescriptorProto.TYPE_INT64,
}
MESSAGES: dict[str, dict[str, tuple[int, str]]] = {
    "RunMetadata": {"step_stats": (1, "StepStats"), "partition_graphs": (3, "GraphDef*")},
    "StepStats": {"dev_stats": (1, "DeviceStepStats*")},
    "DeviceStepStats": {"device": (1, "string"), "node_stats": (2, "NodeExecStats*")},
    "NodeExecStats": {
        "node_name": (1, "string"),
        "all_start_micros": (2, "int64"),
        "all_end_rel_micros": (5, "int64"),
        "output": (7, "NodeOutput*"),
        "timeline_label": (8, "string"),
    },
    "NodeOutput": {"slot": (1, "int32"), "tensor_description": (3, "TensorDescription")},
    "TensorDescription": {"dtype": (1, "int32"), "shape": (2, "TensorShapeProto")},
    "TensorShapeProto": {"dim": (2, "Dim*")},
    "Dim": {"size": (1, "int64")},
    "GraphDef": {"node": (1, "NodeDef*")},
    "NodeDef": {
        "name": (1, "string"),
        "op": (2, "string"),
        "input": (3, "string*"),
        "device": (4, "string"),
        "attr": (5, "AttrEntry*"),
    },
    "AttrEntry": {"key": (1, "string"), "value": (2, "AttrValue")},
    "AttrValue": {"s": (2, "bytes")},
}
"""Fields of each message: number and type; `*` is repeated. An enumeration travels as int32."""

_SIZES: dict[int, tuple[int, ...]] = {
    1: (4, 6, 10, 11, 12, *range(24, 34)),
    2: (5, 14, 15, 16, 17, 19),
    4: (1, 3, 13, 22),
    8: (2, 8, 9, 23),
    16: (18,),
}
ELEMENT_BYTES = MappingProxyType({kind: size for size, kinds in _SIZES.items() for kind in kinds})
"""Bytes of an element by TensorFlow's DataType; types without a fixed size are not listed."""


def _class() -> Any:
    file = FileDescriptorProto(name="run_metadata.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, (number, kind) in fields.items():
            base = kind.removesuffix("*")
            repeated = base != kind
            message.field.add(
                name=field,
                number=number,
                label=(
                    FieldDescriptorProto.LABEL_REPEATED
                    if repeated
                    else FieldDescriptorProto.LABEL_OPTIONAL
                ),
                type=_SCALARS.get(base, FieldDescriptorProto.TYPE_MESSAGE),
                type_name=None if base in _SCALARS else f".{_PACKAGE}.{base}",
            )
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.RunMetadata"))


RunMetadata = _class()
"""Protobuf class of the messages above."""
