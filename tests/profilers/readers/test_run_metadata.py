"""Reading RunMetadata: a hand-made step of one weight, its read, a product and its update."""

from pathlib import Path
from typing import Any

import pytest

from profilers.readers import run_metadata
from profilers.readers.run_metadata import ELEMENT_BYTES, MESSAGES
from tests.ports import free_port
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


def test_transfers_are_operations_of_the_links_and_sizes_come_from_shapes(
    metadata: Any, tmp_path: Path
) -> None:
    trace = run_metadata.read(write(metadata, tmp_path), [START_US])
    assert trace.operation.select("name", "resource", "server", "size_bytes").rows() == [
        ("w/read", "ps", 1, None),
        ("w/read_S0", "ps", 1, None),
        ("product_S3", "uplink", 1, 7 * 4),
        ("update", "ps", 1, None),
        ("w/read_S1", "downlink", 1, 3 * 5 * 4),
        ("product", "worker", None, None),
        ("ready", "worker", None, None),
        ("product_S2", "worker", None, None),
    ]


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


def test_a_trace_without_graphs_says_how_to_get_them(metadata: Any, tmp_path: Path) -> None:
    metadata.ClearField("partition_graphs")
    with pytest.raises(BadInput, match="trace with output_partition_graphs=True"):
        run_metadata.read(write(metadata, tmp_path), [START_US])


@pytest.fixture(scope="module")
def real_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Three traced steps of a matrix on a parameter server, trained by a worker, in-process."""
    import tensorflow.compat.v1 as tf

    jobs = ("ps", "worker")
    cluster = tf.train.ClusterSpec({job: [f"127.0.0.1:{free_port()}"] for job in jobs})
    servers = [tf.train.Server(cluster, job_name=job, task_index=0) for job in jobs]
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            weight = tf.get_variable("w", [7, 5], use_resource=False)
        with tf.device("/job:worker/task:0"):
            loss = tf.reduce_sum(tf.matmul(tf.random.normal([3, 7]), weight) ** 2)
            step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
            initialize = tf.global_variables_initializer()
        folder, files = tmp_path_factory.mktemp("real"), []
        with tf.Session(servers[1].target) as session:
            session.run(initialize)
            for i in range(3):
                metadata = tf.RunMetadata()
                options = tf.RunOptions(
                    trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=i == 0
                )
                session.run(step, options=options, run_metadata=metadata)
                files.append(folder / f"{i}.pb")
                files[-1].write_bytes(metadata.SerializeToString())
    return files


def test_a_real_training_step(real_files: list[Path]) -> None:
    trace = run_metadata.read(real_files, [0, 1_000, 2_000])
    transfers = trace.operation.filter(trace.operation["resource"].is_in(["downlink", "uplink"]))
    assert 7 * 5 * 4 in transfers["size_bytes"].to_list()
    assert trace.timing["step"].unique().to_list() == [0, 1, 2]


@pytest.mark.parametrize("kept", [0, 1, 100, -1])
def test_a_later_file_cut_off_is_named(real_files: list[Path], kept: int, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pb"
    cut.write_bytes(real_files[1].read_bytes()[:kept])
    message = r"cut\.pb: not a whole TensorFlow RunMetadata .*profile the step again$"
    with pytest.raises(BadInput, match=message):
        run_metadata.read([real_files[0], cut], [0, 0])


def test_field_numbers_and_types_are_tensorflows() -> None:
    from tensorflow.core.protobuf import config_pb2

    def check(name: str, descriptor: Any) -> None:
        for field, (number, kind) in MESSAGES[name].items():
            declared = descriptor.fields_by_name[field]
            base = kind.removesuffix("*")
            assert (declared.number, declared.is_repeated) == (number, base != kind), (name, field)
            if base in MESSAGES:
                seen.add(base)
                check(base, declared.message_type)
            else:
                names = {5: "int32", 14: "int32", 3: "int64", 9: "string", 12: "bytes"}
                assert names[declared.type] == base, (name, field)

    seen = {"RunMetadata"}
    check("RunMetadata", config_pb2.RunMetadata.DESCRIPTOR)
    assert seen == set(MESSAGES)


def test_sizes_of_elements_are_tensorflows() -> None:
    from tensorflow.core.framework import types_pb2
    from tensorflow.python.framework import dtypes

    kinds = [kind for kind in types_pb2.DataType.values() if kind != types_pb2.DT_INVALID]
    sizes = {kind: dtypes.as_dtype(kind).size for kind in kinds}
    assert {kind: ELEMENT_BYTES.get(kind % 100, 0) for kind in kinds} == sizes
