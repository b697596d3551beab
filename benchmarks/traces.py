"""RunMetadata → Parquet: our reader, and the plain way with TensorFlow's classes."""

import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.child import best_of
from warehouse.records import Run

STEP_OPERATIONS = 1000
"""Operations of a training step, a fifth of them transfers: a network of 100 layers or so."""
_REPEATS = 3
_PS, _WORKER = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("ps", "worker"))


def a_run(run_id: str, scenario_id: str | None = None) -> Run:
    """Return a traced run."""
    now = datetime.now(UTC)
    return Run(
        run_id=run_id,
        probe="tf_trace",
        purpose="profile",
        study="benchmark",
        repeat=1,
        scenario_id=scenario_id,
        backend="imported",
        status="ok",
        started_at=now,
        ended_at=now,
        host_id="benchmark",
        host={},
        software={},
        config={},
    )


def write(folder: str, steps: int) -> float:
    """Write traces as TensorFlow does: one file per step, graphs in the first."""
    from tensorflow.core.protobuf import config_pb2

    metadata = config_pb2.RunMetadata()
    graphs = [metadata.partition_graphs.add() for _ in range(2)]
    for i in range(STEP_OPERATIONS):
        transfer, previous = i % 5 == 0, [f"layer_{i - 1}/Conv2D"] if i % 5 > 1 else []
        op, device = ("_Recv" if transfer else "Conv2D"), (_WORKER if transfer or i % 2 else _PS)
        node = graphs[0].node.add(name=f"layer_{i}/Conv2D", op=op, device=device, input=previous)
        if transfer:
            sender = graphs[1].node.add(name=f"layer_{i}/send", op="_Send", device=_PS)
            for end in (node, sender):
                end.attr["tensor_name"].s = f"edge_{i}_layer_{i}/read".encode()
                end.attr["send_device"].s = _PS.encode()
    stats = [metadata.step_stats.dev_stats.add(device=device) for device in (_PS, _WORKER)]
    for i in range(STEP_OPERATIONS):
        _time(stats[i % 2], i)
    for step in range(steps):
        Path(folder, f"{step:05d}.pb").write_bytes(metadata.SerializeToString())
        metadata.ClearField("partition_graphs")
    return 0.0


def _time(stats: Any, i: int) -> None:
    transfer = i % 5 == 0
    entry = stats.node_stats.add(
        node_name="RecvTensor" if transfer else f"layer_{i}/Conv2D",
        all_start_micros=1_795_258_359_000_000 + i * 300,
        op_start_rel_micros=1,
        op_end_rel_micros=250 + i,
        all_end_rel_micros=251 + i,
        scheduled_micros=1_795_258_359_000_000 + i * 299,
        thread_id=i % 4,
    )
    name = f"edge_{i}_layer_{i}/read"
    label = f"[4.0MB] [191.2Mb/s] {name} from {_PS} to {_WORKER}"
    entry.timeline_label = label if transfer else f"layer_{i}/Conv2D = Conv2D(a:0, b:0)"
    entry.memory.add(allocator_name="cpu", total_bytes=4096, peak_bytes=4096)
    description = entry.output.add(slot=0).tensor_description
    description.dtype = 1
    for size in (32, 56, 56, 64):
        description.shape.dim.add(size=size)
    description.allocation_description.requested_bytes = 4096


def convert(folder: str) -> float:
    """Read the traces as a stream and land them."""
    from profilers.readers import run_metadata
    from warehouse.landing import land

    files = sorted(Path(folder).glob("*.pb"))

    def work() -> None:
        graph, timing = run_metadata.stream(files, [1_795_258_359_000_000] * len(files))
        tables = {"operation": graph.operation, "edge": graph.edge, "timing": timing}
        land(Path(folder, "landing"), a_run(uuid.uuid4().hex), None, tables)

    return best_of(_REPEATS, work)


def convert_plainly(folder: str) -> float:
    """Peer: TensorFlow's classes, a tuple per entry, one frame; of the graph only names."""
    import polars as pl
    from tensorflow.core.protobuf import config_pb2

    files = sorted(Path(folder).glob("*.pb"))

    def rows() -> Iterator[tuple[int, int, int, int]]:
        graphs = config_pb2.RunMetadata.FromString(files[0].read_bytes()).partition_graphs
        nodes = [node for graph in graphs for node in graph.node]
        index = {node.name: i for i, node in enumerate(nodes)}
        edges = {
            node.attr["tensor_name"].s.decode(): i
            for i, node in enumerate(nodes)
            if node.op == "_Recv"
        }
        for step, file in enumerate(files):
            metadata = config_pb2.RunMetadata.FromString(file.read_bytes())
            for device in metadata.step_stats.dev_stats:
                for entry in device.node_stats:
                    if entry.node_name == "RecvTensor":
                        operation = edges[entry.timeline_label.split(" ")[2]]
                    else:
                        operation = index[entry.node_name]
                    yield step, operation, entry.all_start_micros, entry.all_end_rel_micros

    def work() -> None:
        columns = ["step", "operation", "start_us", "duration_us"]
        frame = pl.DataFrame(list(rows()), schema=columns, orient="row")
        frame.write_parquet(Path(folder, "plain.parquet"), compression="zstd")

    return best_of(_REPEATS, work)
