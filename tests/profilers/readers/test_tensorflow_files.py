"""RunMetadata of others, and the Chrome timelines that TensorFlow makes of it, say the same."""

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profilers.readers.imported import Imported
from tests.profilers.readers.imports import imported, only
from warehouse.records import BadInput

CPU = "/job:worker/replica:0/task:1/device:CPU:0"
GPU = "/job:worker/replica:0/task:1/device:GPU:0"
PS = "/job:ps/replica:0/task:2/device:CPU:0"


@pytest.fixture
def metadata() -> Any:
    """A step without graphs: a weight arrives, a product is launched on the GPU and added to."""
    from tensorflow.core.protobuf import config_pb2

    metadata = config_pb2.RunMetadata()
    for device, name, start_us, duration_us, label in (
        (CPU, "RecvTensor", 0, 7, "[256B] [100Mb/s] edge_1_w from /job:ps to /job:worker"),
        (CPU, "x", 10, 2, "x = Const()"),
        (GPU, "product", 13, 3, "product = MatMul(x, w/_12, ^x)"),
        ("/device:GPU:0/stream:all", "product:MatMul", 15, 40, "sgemm@@product:MatMul#id=1#"),
        (CPU, "sum", 60, 5, "sum = Add(product:0, product:0)"),
        (PS, "w", 70, 1, "w = AssignSub(sum)"),
    ):
        stats = next((one for one in metadata.step_stats.dev_stats if one.device == device), None)
        (stats or metadata.step_stats.dev_stats.add(device=device)).node_stats.add(
            node_name=name,
            all_start_micros=1_000_000 + start_us,
            all_end_rel_micros=duration_us,
            timeline_label=label,
        )
    return metadata


@pytest.fixture
def from_protobuf(tmp_path: Path, metadata: Any) -> Imported:
    file = tmp_path / "step.pb"
    file.write_bytes(metadata.SerializeToString())
    return only("runmetadata", file)


@pytest.fixture
def from_timeline(tmp_path: Path, metadata: Any) -> Imported:
    from tensorflow.python.client import timeline

    file = tmp_path / "timeline.json"
    shown = timeline.Timeline(metadata.step_stats)
    file.write_text(shown.generate_chrome_trace_format(show_memory=True))
    return only("chrome-timeline", file)


@pytest.mark.parametrize("which", ["from_protobuf", "from_timeline"])
def test_operations_edges_and_times(which: str, request: pytest.FixtureRequest) -> None:
    tables = request.getfixturevalue(which).tables
    operation = tables["operation"].select("name", "type", "resource", "server", "device")
    assert operation.rows() == [
        ("RecvTensor", "RecvTensor", "downlink", None, "host"),
        ("x", "Const", "worker", None, "host"),
        ("product", "MatMul", "worker", None, "gpu"),
        ("product", "MatMul", "worker", None, "gpu"),
        ("sum", "Add", "worker", None, "host"),
        ("w", "AssignSub", "ps", 2, "host"),
    ]
    # w/_12 is a copy of w, but w ran only after the product.
    assert tables["edge"].rows() == [(1, 2), (2, 3), (2, 4), (4, 5)]
    assert tables["timing"].select("start_us", "duration_us").rows() == [
        (0, 7),
        (10, 2),
        (13, 3),
        (15, 40),
        (60, 5),
        (70, 1),
    ]


def test_with_graphs_the_nodes_are_operations(tmp_path: Path, metadata: Any) -> None:
    graph = metadata.partition_graphs.add()
    graph.node.add(name="x", op="Const", device=CPU)
    graph.node.add(name="product", op="MatMul", device=CPU, input=["x"])
    file = tmp_path / "step.pb"
    file.write_bytes(metadata.SerializeToString())
    tables = only("runmetadata", file).tables
    assert tables["operation"].select("name", "type").rows() == [
        ("x", "Const"),
        ("product", "MatMul"),
    ]
    assert tables["edge"].rows() == [(0, 1)]
    assert tables["timing"].filter(pl.col("operation") == 0)["start_us"].to_list() == [10]


def test_a_node_that_runs_twice_is_two_operations(tmp_path: Path) -> None:
    events = [
        {"ph": "X", "pid": 1, "name": "Add", "ts": ts, "dur": 1, "args": {"name": "a", "op": "Add"}}
        for ts in (5, 3)
    ]
    file = tmp_path / "timeline.json"
    file.write_text(json.dumps({"traceEvents": events}))
    tables = only("chrome-timeline", file).tables
    assert tables["timing"]["start_us"].to_list() == [0, 2]
    assert tables["edge"].is_empty()


def test_files_of_other_kinds_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"\xff\xff")
    with pytest.raises(BadInput, match="not a whole TensorFlow RunMetadata"):
        imported("runmetadata", file)
    file.write_bytes(b"\x0a\x00")
    with pytest.raises(BadInput, match=r"no operation was timed.*FULL_TRACE"):
        imported("runmetadata", file)
    file.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "args": {}}]}')
    with pytest.raises(BadInput, match="the format is kineto"):
        imported("chrome-timeline", file)
    file.write_text('{"traceEvents": [{"ph": "X", "pid": 1, "args": {"op": "Add", "name": "a"}}]}')
    with pytest.raises(BadInput, match="'ts' is missing"):
        imported("chrome-timeline", file)
