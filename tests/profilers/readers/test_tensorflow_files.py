"""RunMetadata of others, and the Chrome timelines that TensorFlow makes of it, say the same."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from profilers.readers.contract import ImportedRun
from tests.profilers.readers.hostile import read, refused
from tests.profilers.readers.imports import imported, only
from warehouse import limits
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
        stats = next(
            (dev_stat for dev_stat in metadata.step_stats.dev_stats if dev_stat.device == device),
            None,
        )
        (stats or metadata.step_stats.dev_stats.add(device=device)).node_stats.add(
            node_name=name,
            all_start_micros=1_000_000 + start_us,
            all_end_rel_micros=duration_us,
            timeline_label=label,
        )
    return metadata


@pytest.fixture
def from_protobuf(tmp_path: Path, metadata: Any) -> ImportedRun:
    file = tmp_path / "step.pb"
    file.write_bytes(metadata.SerializeToString())
    return only("runmetadata", file)


@pytest.fixture
def from_timeline(tmp_path: Path, metadata: Any) -> ImportedRun:
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


def timeline(file: Path, events: list[Any]) -> Path:
    file.write_text(json.dumps({"traceEvents": events}))
    return file


def ran(pid: int, name: str, start_us: int, duration_us: int = 1, *inputs: str) -> dict[str, Any]:
    """Return an execution of node `name`."""
    args = {"name": name, "op": "Add", **{f"input{i}": node for i, node in enumerate(inputs)}}
    return {"ph": "X", "pid": pid, "ts": start_us, "dur": duration_us, "args": args}


def named(pid: int, process: str) -> dict[str, Any]:
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": f"{process} Compute"}}


def test_a_node_that_runs_twice_is_two_operations(tmp_path: Path) -> None:
    events = [ran(1, "a", 5, 1, "x"), ran(1, "a", 3, 1, "x"), ran(1, "x", 2)]
    tables = only("chrome-timeline", timeline(tmp_path / "timeline.json", events)).tables
    assert tables["timing"]["start_us"].to_list() == [0, 1, 3]
    assert tables["edge"].rows() == [(0, 1), (0, 2)]


LANES = [
    named(1, "/gpu:0/stream:all"),
    named(2, "/gpu:0/stream:12"),
    named(3, "/gpu:0/stream:13"),
    named(4, "/gpu:0/memcpy"),
    named(5, "/gpu:1/stream:all"),
]


def test_an_execution_in_several_lanes_counts_once(tmp_path: Path) -> None:
    events = [
        *(ran(pid, "a", 5, 7) for pid in (1, 2)),
        *(ran(pid, "copy", 6, 2) for pid in (4, 3)),
        # Of the streams only one is listed: the other execution is in the lane of all.
        *(ran(pid, "a", 20, 7) for pid in (1, 1, 2)),
        # Two streams may do the same at the same time, and so may two GPUs.
        *(ran(pid, "a", 40, 7) for pid in (1, 1, 2, 3)),
        *(ran(pid, "b", 60, 1) for pid in (1, 5)),
    ]
    run = only("chrome-timeline", timeline(tmp_path / "timeline.json", [*LANES, *events]))
    timing = run.tables["timing"].select("start_us", "duration_us")
    assert timing.rows() == [(0, 7), (1, 2), *[(15, 7)] * 2, *[(35, 7)] * 2, *[(55, 1)] * 2]
    assert run.left_out == {"executions listed in a second lane of their GPU": 5}


def test_what_no_table_has_is_counted(tmp_path: Path, metadata: Any) -> None:
    others = [{**ran(1, "a", 1), "args": {}, "cat": "Mine"}, {"ph": "C"}, {"ph": "s"}]
    run = only("chrome-timeline", timeline(tmp_path / "timeline.json", [*others, ran(1, "b", 1)]))
    assert run.left_out == {
        "events without an operation, of category 'Mine'": 1,
        "events of phase 'C'": 1,
    }
    node = metadata.partition_graphs.add().node.add(name="x", op="Const", device=CPU)
    file = tmp_path / "step.pb"
    file.write_bytes(metadata.SerializeToString())
    assert only("runmetadata", file).left_out == {
        "executions of no node of the partition graphs": 5
    }
    node.name = "y"
    refused("runmetadata", file, metadata.SerializeToString(), "none of its 6 executions is of")


@pytest.mark.parametrize(
    ("events", "says"),
    [
        # A constant has no inputs, so no loop runs it again.
        (
            [ran(1, "c", 0), ran(1, "a", 1, 1, "c"), ran(1, "c", 9)],
            "'c', which has no inputs, ran 2",
        ),
        ([ran(1, name, at, 1, "x") for at in (0, 9) for name in "ab"], "every node ran 2 times"),
        ([named(1, "/gpu:0"), named(1, "/gpu:0"), ran(1, "a", 0)], "process 1 is named twice"),
    ],
)
def test_several_runs_in_one_timeline_are_refused(
    tmp_path: Path, events: list[Any], says: str
) -> None:
    refused("chrome-timeline", tmp_path / "timeline.json", {"traceEvents": events}, says)


@pytest.mark.parametrize("graphs", [False, True])
def test_several_runs_in_one_protobuf_are_refused(
    tmp_path: Path, metadata: Any, graphs: bool
) -> None:
    if graphs:
        metadata.partition_graphs.add().node.add(name="x", op="Const", device=CPU)
    # Protobufs one after the other are one with the parts of both.
    twice = metadata.SerializeToString() * 2
    refused("runmetadata", tmp_path / "step.pb", twice, f"device '{CPU}' is listed twice")


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


ADD: dict[str, Any] = {"ph": "X", "pid": 1, "ts": 5, "dur": 1, "args": {"name": "a", "op": "Add"}}


@pytest.mark.parametrize(
    ("events", "says"),
    [
        ([{**ADD, "dur": 2**40}], "'a' takes 1099511627776 us; expected 0 to 2147483647"),
        ([ran(1, "a", 5), ran(1, "b", 2**40)], "more than 2,147 s between operations"),
        (
            [
                {
                    "ph": "M",
                    "name": "process_name",
                    "args": {"name": "/job:ps/task:99999"},
                    "pid": 1,
                },
                ADD,
            ],
            "a task beyond 32767",
        ),
    ],
)
def test_hostile_timelines_are_refused(tmp_path: Path, events: list[Any], says: str) -> None:
    refused("chrome-timeline", tmp_path / "timeline.json", {"traceEvents": events}, says)


@pytest.mark.parametrize("name", ["chrome-timeline", "runmetadata"])
def test_what_is_kept_is_bounded(
    name: str, tmp_path: Path, metadata: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = {
        "chrome-timeline": json.dumps({"traceEvents": [ADD, ADD]}).encode(),
        "runmetadata": metadata.SerializeToString(),
    }[name]
    monkeypatch.setattr(limits, "EVENTS", 1)
    refused(name, tmp_path / "file", content, "more than 1 events")
    monkeypatch.undo()
    monkeypatch.setattr(limits, "KEPT_CHARACTERS", 2)
    refused(name, tmp_path / "file", content, "more than 2 characters")


@pytest.mark.parametrize(
    ("label", "kind"),
    [
        ("a" + " = b" * 50_000, "unknown"),
        ("x = y = Add(a, b(c), d)", "Add"),
        (")", "unknown"),
    ],
)
def test_labels_take_no_time(tmp_path: Path, metadata: Any, label: str, kind: str) -> None:
    del metadata.step_stats.dev_stats[1:]
    del metadata.step_stats.dev_stats[0].node_stats[:-1]
    metadata.step_stats.dev_stats[0].node_stats[0].timeline_label = label
    file = tmp_path / "step.pb"
    file.write_bytes(metadata.SerializeToString())
    assert read("runmetadata", file)[0].tables["operation"]["type"].to_list() == [kind]


def hostile(metadata: Any, **node: Any) -> bytes:
    """Return a trace with graphs, in one node of which something is wrong."""
    graph = metadata.partition_graphs.add()
    graph.node.add(name="x", op="Const", device=CPU)
    graph.node.add(**{"name": "product", "op": "MatMul", "device": CPU, "input": ["x"], **node})
    content = metadata.SerializeToString()
    assert isinstance(content, bytes)
    return content


@pytest.mark.parametrize(
    ("node", "says"),
    [
        ({"input": ["y"]}, "input 'y' of 'product' is no output of a node"),
        ({"device": ""}, "device '' of the trace names neither job nor task"),
        ({"device": "/job:ps/task:" + "9" * 5_000}, "a task beyond 32767"),
    ],
)
def test_hostile_graphs_are_refused(
    tmp_path: Path, metadata: Any, node: dict[str, Any], says: str
) -> None:
    refused("runmetadata", tmp_path / "step.pb", hostile(metadata, **node), says)


def test_sizes_and_times_that_no_column_holds_are_refused(tmp_path: Path, metadata: Any) -> None:
    file = tmp_path / "step.pb"
    entry = metadata.step_stats.dev_stats[0].node_stats[1]
    shape = entry.output.add(slot=0).tensor_description.shape
    entry.output[0].tensor_description.dtype = 1
    for _ in range(100_000):
        shape.dim.add(size=2**40)
    refused("runmetadata", file, hostile(metadata), "a size beyond 2^63")
    entry.ClearField("output")
    for duration_us in (-1, 2**40):
        entry.all_end_rel_micros = duration_us
        refused("runmetadata", file, metadata.SerializeToString(), f"'x' takes {duration_us} us")
    entry.all_end_rel_micros = 1
    entry.all_start_micros = -(2**63)
    refused("runmetadata", file, metadata.SerializeToString(), "more than 2,147 s between")


def test_a_transfer_that_nobody_sends_has_no_size(tmp_path: Path, metadata: Any) -> None:
    graph = metadata.partition_graphs.add()
    graph.node.add(name="x", op="Const", device=CPU)
    node = graph.node.add(name="r", op="_Recv", device=CPU)
    node.attr["send_device"].s = PS.encode()
    node.attr["tensor_name"].s = b"\xff"
    file = tmp_path / "step.pb"
    file.write_bytes(metadata.SerializeToString())
    assert read("runmetadata", file)[0].tables["operation"]["size_bytes"].to_list() == [None] * 2


def test_protobufs_are_bounded_and_may_be_gzipped(
    tmp_path: Path, metadata: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = gzip.compress(metadata.SerializeToString())
    file = tmp_path / "step.pb.gz"
    file.write_bytes(content)
    assert read("runmetadata", file)[0].tables["operation"].height == 6
    monkeypatch.setattr(limits, "PROTOBUF_BYTES", 100)
    refused("runmetadata", file, content, "MiB when unpacked")
