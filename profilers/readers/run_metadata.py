"""TensorFlow RunMetadata of one distributed job → rows of operation, edge and timing.

Partition graphs give every operation and dependency exactly: `_Send` and `_Recv` nodes carry the
same `tensor_name`, which is also in the label of the `RecvTensor` entry that times the transfer.
A transfer is one operation, that of its `_Recv`; its `_Send` is an operation of the sender.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from warehouse.records import BadInput

_DEVICE = re.compile(r"job:(?P<job>\w+).*?/task:(?P<task>\d+)")
_TRANSFER = re.compile(r"\] (?P<edge>edge_\S+) from ")


@dataclass(frozen=True)
class Operation:
    """One operation of the executed graph; `resource` as in the table `operation`."""

    name: str
    type: str
    resource: str
    server: int | None
    inputs: tuple[str, ...]
    tensor_name: str | None


@dataclass(frozen=True)
class Trace:
    """Frames `operation`, `edge`, `timing` of a run's traced steps.

    `transfers` maps the name of each edge between devices to the operation that transfers it.
    """

    operation: pl.DataFrame
    edge: pl.DataFrame
    timing: pl.DataFrame
    transfers: Mapping[str, int]


def read(files: Sequence[Path], step_starts_us: Sequence[int]) -> Trace:
    """Read one RunMetadata file per traced step; the first also holds the partition graphs.

    Args:
        files: serialised RunMetadata protobufs, one per step.
        step_starts_us: when the client started each step, microseconds of UTC.

    Raises:
        BadInput: a file is cut off or not RunMetadata, or the first has no partition graphs.
    """
    first = parse(files[0])
    operations = list(_operations(first.partition_graphs))
    if not operations:
        raise BadInput(f"{files[0]}: no partition graphs; trace with output_partition_graphs=True")
    index = {operation.name: i for i, operation in enumerate(operations)}
    transfer = {
        operation.tensor_name: index[operation.name]
        for operation in operations
        if operation.tensor_name is not None and operation.type == "_Recv"
    }
    timings: list[tuple[int, int, int, int]] = []
    for step, (file, start_us) in enumerate(zip(files, step_starts_us, strict=True)):
        metadata = first if step == 0 else parse(file)
        timings += _timings(metadata.step_stats, step, start_us, index, transfer)
    timing = pl.DataFrame(
        timings, schema=["step", "operation", "start_us", "duration_us"], orient="row"
    )
    edges = _edges(operations, index)
    sizes = _sizes(first.step_stats, operations, index, edges)
    return Trace(_operation_frame(operations, sizes), _edge_frame(edges), timing, transfer)


def parse(file: Path) -> Any:
    """Parse one RunMetadata file.

    Raises:
        BadInput: the file is cut off or is something else.
    """
    from google.protobuf.message import DecodeError

    metadata = _run_metadata_class()()
    try:
        metadata.ParseFromString(file.read_bytes())
    except DecodeError:
        raise BadInput(
            f"{file}: not a whole TensorFlow RunMetadata (cut off, or another format); "
            "profile the step again"
        ) from None
    return metadata


@cache
def _run_metadata_class() -> Any:
    """Import the message quietly: TensorFlow writes start-up notes past Python to stderr."""
    kept = os.dup(2)
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), 2)
        try:
            from tensorflow.core.protobuf import config_pb2
        finally:
            os.dup2(kept, 2)
            os.close(kept)
    return config_pb2.RunMetadata


def _operations(graphs: Iterable[Any]) -> Iterator[Operation]:
    for graph in graphs:
        for node in graph.node:
            resource, server = _resource(node)
            name = node.attr["tensor_name"].s.decode() if _is_transport(node.op) else None
            yield Operation(node.name, node.op, resource, server, tuple(node.input), name)


def _resource(node: Any) -> tuple[str, int | None]:
    """Return the resource a node uses and, unless that is the worker, the server it belongs to."""
    job, task = _device(node.device)
    if node.op == "_Recv":
        sender_job, sender_task = _device(node.attr["send_device"].s.decode())
        if (sender_job, job) == ("ps", "worker"):
            return "downlink", sender_task
        if (sender_job, job) == ("worker", "ps"):
            return "uplink", task
    return ("ps", task) if job == "ps" else ("worker", None)


def _device(name: str) -> tuple[str, int]:
    match = _DEVICE.search(name)
    if match is None:
        raise BadInput(f"device {name!r} of the trace names neither job nor task")
    return match["job"], int(match["task"])


def _is_transport(op: str) -> bool:
    return op in ("_Send", "_Recv")


def _edges(operations: Sequence[Operation], index: dict[str, int]) -> list[tuple[int, int, int]]:
    """Return (source, target, output slot) of each dependency; slot −1 is a control edge."""
    sends = {o.tensor_name: index[o.name] for o in operations if o.type == "_Send"}
    edges: list[tuple[int, int, int]] = []
    for target, operation in enumerate(operations):
        for name in operation.inputs:
            source, _, slot = name.removeprefix("^").partition(":")
            edges.append((index[source], target, -1 if name.startswith("^") else int(slot or 0)))
        if operation.type == "_Recv" and operation.tensor_name in sends:
            edges.append((sends[operation.tensor_name], target, 0))
    return edges


def _sizes(
    stats: Any,
    operations: Sequence[Operation],
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
        if operation.resource in ("downlink", "uplink"):
            send, _ = source_of[target]
            sizes[target] = written.get(source_of.get(send, (-1, 0)), 0)
    return sizes


def _tensor_bytes(description: Any) -> int:
    from tensorflow.python.framework import dtypes

    elements = 1
    for dimension in description.shape.dim:
        elements *= dimension.size
    return int(elements * dtypes.as_dtype(description.dtype).size)


def _timings(
    stats: Any, step: int, start_us: int, index: dict[str, int], transfer: dict[str, int]
) -> Iterator[tuple[int, int, int, int]]:
    for device in stats.dev_stats:
        for entry in device.node_stats:
            operation = index.get(entry.node_name)
            if entry.node_name == "RecvTensor":
                match = _TRANSFER.search(entry.timeline_label)
                operation = transfer.get(match["edge"]) if match else None
            if operation is not None:
                duration_us = entry.all_end_rel_micros
                yield step, operation, entry.all_start_micros - start_us, duration_us


def _operation_frame(operations: Sequence[Operation], sizes: dict[int, int]) -> pl.DataFrame:
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
