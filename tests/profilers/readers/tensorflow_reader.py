"""The oracle of `profilers.readers.run_metadata`: the same frames from TensorFlow's own classes."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from profilers.readers.run_metadata import TracedRun

_DEVICE = re.compile(r"job:(?P<job>\w+).*?/task:(?P<task>\d+)")
_TRANSFER = re.compile(r"\] (?P<edge>edge_\S+) from ")


@dataclass(frozen=True)
class Operation:
    name: str
    type: str
    resource: str
    server: int | None
    inputs: tuple[str, ...]
    tensor_name: str | None


def read(files: Sequence[Path], step_starts_us: Sequence[int]) -> TracedRun:
    first = parse(files[0])
    operations = list(_operations(first.partition_graphs))
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
    columns = ["step", "operation", "start_us", "duration_us"]
    timing = pl.DataFrame(timings, schema=dict.fromkeys(columns, pl.Int64), orient="row")
    edges = _edges(operations, index)
    sizes = _sizes(first.step_stats, operations, index, edges)
    return TracedRun(_operation_frame(operations, sizes), _edge_frame(edges), timing, transfer)


def parse(file: Path) -> Any:
    from tensorflow.core.protobuf import config_pb2

    return config_pb2.RunMetadata.FromString(file.read_bytes())


def _operations(graphs: Iterable[Any]) -> Iterator[Operation]:
    for graph in graphs:
        for node in graph.node:
            resource, server = _resource(node)
            name = node.attr["tensor_name"].s.decode() if _is_transport(node.op) else None
            yield Operation(node.name, node.op, resource, server, tuple(node.input), name)


def _resource(node: Any) -> tuple[str, int | None]:
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
    assert match is not None
    return match["job"], int(match["task"])


def _is_transport(op: str) -> bool:
    return op in ("_Send", "_Recv")


def _edges(operations: Sequence[Operation], index: dict[str, int]) -> list[tuple[int, int, int]]:
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
