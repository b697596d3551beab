"""Reading RunMetadata: a hand-made step of one weight, its read, a product and its update."""

from pathlib import Path
from typing import Any

import pytest

from profilers.readers import run_metadata
from warehouse.records import BadInput

PS, WORKER = "/job:ps/replica:0/task:1/device:CPU:0", "/job:worker/replica:0/task:0/device:CPU:0"
START_US = 1_000_000


@pytest.fixture
def metadata() -> Any:
    """One step: w/read on the server → product on the worker → update on the server."""
    from tensorflow.core.protobuf import config_pb2

    metadata = config_pb2.RunMetadata()
    server, worker = metadata.partition_graphs.add(), metadata.partition_graphs.add()
    for graph, name, op, device, inputs, tensor, sender in (
        (server, "w/read", "Identity", PS, [], None, None),
        (server, "w/read_S0", "_Send", PS, ["w/read"], "edge_1_w/read", PS),
        (worker, "w/read_S1", "_Recv", WORKER, [], "edge_1_w/read", PS),
        (worker, "product", "MatMul", WORKER, ["w/read_S1"], None, None),
        (worker, "ready", "NoOp", WORKER, ["^product"], None, None),
        (worker, "product_S2", "_Send", WORKER, ["product:1"], "edge_2_product", WORKER),
        (server, "product_S3", "_Recv", PS, [], "edge_2_product", WORKER),
        (server, "update", "ApplyGradientDescent", PS, ["product_S3", "w/read"], None, None),
    ):
        node = graph.node.add(name=name, op=op, device=device, input=inputs)
        if tensor:
            node.attr["tensor_name"].s = tensor.encode()
            node.attr["send_device"].s = str(sender).encode()
    on_server = metadata.step_stats.dev_stats.add(device=PS)
    on_worker = metadata.step_stats.dev_stats.add(device=WORKER)
    for device, name, start_us, duration_us, label, shape in (
        (on_server, "w/read", 10, 5, "", (0, [3, 5])),
        (on_worker, "RecvTensor", 20, 100, label_of("edge_1_w/read", PS, WORKER), None),
        (on_worker, "product", 130, 50, "", (1, [7])),
        (on_worker, "_SOURCE", 1, 1, "", None),
        (on_server, "RecvTensor", 190, 40, label_of("edge_2_product", WORKER, PS), None),
        (on_server, "update", 240, 4, "", None),
    ):
        entry = device.node_stats.add(
            node_name=name,
            all_start_micros=START_US + start_us,
            all_end_rel_micros=duration_us,
            timeline_label=label,
        )
        if shape:
            slot, sides = shape
            output = entry.output.add(slot=slot)
            output.tensor_description.dtype = 1
            for side in sides:
                output.tensor_description.shape.dim.add(size=side)
    return metadata


def label_of(edge: str, sender: str, receiver: str) -> str:
    """A RecvTensor label as TensorFlow writes it; its size is rounded, so it is not read."""
    return f"[4.0MB] [191.2Mb/s] {edge} from {sender} to {receiver}"


def write(metadata: Any, folder: Path, steps: int = 1) -> list[Path]:
    """Write the same step several times, partition graphs in the first file only."""
    files = []
    for step in range(steps):
        files.append(folder / f"{step}.pb")
        files[-1].write_bytes(metadata.SerializeToString())
        metadata.ClearField("partition_graphs")
    return files


def by_name(trace: run_metadata.TracedRun) -> dict[str, dict[str, Any]]:
    """Rows of the table operation by name."""
    return {row["name"]: row for row in trace.operation.to_dicts()}


def test_transfers_are_operations_of_the_links(metadata: Any, tmp_path: Path) -> None:
    rows = by_name(run_metadata.read(write(metadata, tmp_path), [START_US]))
    assert {name: (row["resource"], row["server"]) for name, row in rows.items()} == {
        "w/read": ("ps", 1),
        "w/read_S0": ("ps", 1),
        "w/read_S1": ("downlink", 1),
        "product": ("worker", None),
        "ready": ("worker", None),
        "product_S2": ("worker", None),
        "product_S3": ("uplink", 1),
        "update": ("ps", 1),
    }


def test_sizes_come_from_shapes_not_from_labels(metadata: Any, tmp_path: Path) -> None:
    rows = by_name(run_metadata.read(write(metadata, tmp_path), [START_US]))
    sizes = {name: row["size_bytes"] for name, row in rows.items() if row["size_bytes"]}
    assert sizes == {"w/read_S1": 3 * 5 * 4, "product_S3": 7 * 4}


def test_edges_cross_the_network_exactly(metadata: Any, tmp_path: Path) -> None:
    trace = run_metadata.read(write(metadata, tmp_path), [START_US])
    names = trace.operation["name"].to_list()
    assert {(names[source], names[target]) for source, target in trace.edge.rows()} == {
        ("w/read", "w/read_S0"),
        ("w/read_S0", "w/read_S1"),
        ("w/read_S1", "product"),
        ("product", "ready"),
        ("product", "product_S2"),
        ("product_S2", "product_S3"),
        ("product_S3", "update"),
        ("w/read", "update"),
    }


def test_times_count_from_the_clients_start(metadata: Any, tmp_path: Path) -> None:
    starts = [START_US, START_US - 1000]
    trace = run_metadata.read(write(metadata, tmp_path, steps=2), starts)
    names = trace.operation["name"].to_list()
    timed = {
        (step, names[operation]): (start_us, duration_us)
        for step, operation, start_us, duration_us in trace.timing.rows()
    }
    first = {
        "w/read": (10, 5),
        "w/read_S1": (20, 100),
        "product": (130, 50),
        "product_S3": (190, 40),
        "update": (240, 4),
    }
    later = {name: (start_us + 1000, duration) for name, (start_us, duration) in first.items()}
    assert timed == {(0, name): times for name, times in first.items()} | {
        (1, name): times for name, times in later.items()
    }


def test_a_cut_off_file_is_named(metadata: Any, tmp_path: Path) -> None:
    (file,) = write(metadata, tmp_path)
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(BadInput, match=r"0\.pb: not a whole TensorFlow RunMetadata"):
        run_metadata.read([file], [START_US])


def test_a_trace_without_graphs_says_how_to_get_them(metadata: Any, tmp_path: Path) -> None:
    metadata.ClearField("partition_graphs")
    with pytest.raises(BadInput, match="trace with output_partition_graphs=True"):
        run_metadata.read(write(metadata, tmp_path), [START_US])
