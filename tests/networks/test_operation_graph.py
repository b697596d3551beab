import json
from collections import Counter
from typing import Any

import pytest

import networks
from networks.operation_graph import canonical, operation_graph, step_operations
from tests.exhaustive import exhaustive


def executed(dnn: str, batch_size: int, image_size: int) -> tuple[list[Any], dict[str, list[Any]]]:
    """Run two steps and return the nodes of the executed graph and the shapes each one wrote."""
    import tensorflow.compat.v1 as tf1

    with tf1.Graph().as_default():
        loss = networks.training_loss(dnn, batch_size, image_size)
        minimize = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        step = tf1.group(minimize, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        metadata = tf1.RunMetadata()
        options = tf1.RunOptions(
            trace_level=tf1.RunOptions.FULL_TRACE, output_partition_graphs=True
        )
        with tf1.Session() as session:
            session.run(tf1.global_variables_initializer())
            session.run(step, options=options, run_metadata=metadata)
    nodes = [node for graph in metadata.partition_graphs for node in graph.node]
    wrote = {
        entry.node_name: [
            [dimension.size for dimension in output.tensor_description.shape.dim]
            for output in sorted(entry.output, key=lambda output: output.slot)
        ]
        for device in metadata.step_stats.dev_stats
        for entry in device.node_stats
    }
    return nodes, wrote


@pytest.mark.parametrize(
    ("dnn", "image_size"),
    [
        ("small_cnn", 32),
        *exhaustive(("squeezenet", 48), ("mobilenet_v2", 32), ("vit_tiny", 16)),
        ("stacked_lstm", 8),
    ],
)
def test_the_graph_is_the_one_that_is_executed(graph: Any, dnn: str, image_size: int) -> None:
    extracted = operation_graph(dnn, 4, image_size)
    operations = extracted.operations
    assert all(operation.known for operation in operations)
    nodes, wrote = executed(dnn, 4, image_size)
    assert Counter(op.type for op in operations) == Counter(canonical(node.op) for node in nodes)
    outputs = {op.name: json.loads(op.outputs) for op in operations if op.known}
    compared = 0
    for node in nodes:
        for slot, shape in enumerate(wrote.get(node.name, [])):
            if "FusedBatchNorm" in node.op and slot == 5:
                continue  # Scratch space of the library.
            if node.name in outputs and slot < len(outputs[node.name]) and shape:
                assert outputs[node.name][slot] == shape, node.name
                compared += 1
    assert compared > 0.5 * len(nodes)


def test_inputs_of_the_first_convolution(graph: Any) -> None:
    extracted = operation_graph("small_cnn", 4, 32)
    convolutions = 27 * 64 + 64 + 2 * (9 * 64 * 64 + 64)
    assert extracted.parameter_count == convolutions + (64 * 64 + 1) * 320 + 3210
    fused = [operation for operation in extracted.operations if operation.type == "_FusedConv2D"]
    first = next(op for op in fused if json.loads(op.inputs)[0] == [4, 32, 32, 3])
    # Images, filter and biases, in single precision.
    assert json.loads(first.inputs) == [[4, 32, 32, 3], [3, 3, 3, 64], [64]]
    assert json.loads(first.outputs)[0] == [4, 32, 32, 64]
    assert first.input_bytes == 4 * (4 * 32 * 32 * 3 + 27 * 64 + 64)
    assert json.loads(first.attributes) == {
        "strides": [1, 1, 1, 1],
        "padding": "SAME",
        "dilations": [1, 1, 1, 1],
    }
    assert all(operation.known for operation in extracted.operations if "Conv2D" in operation.type)


def test_what_the_step_does_not_need_is_left_out(graph: Any) -> None:
    import tensorflow.compat.v1 as tf1

    images = tf1.random_uniform((2, 8))
    wanted = tf1.reduce_sum(tf1.matmul(images, images, transpose_b=True), name="wanted")
    tf1.exp(images, name="unwanted")
    operations = step_operations(tf1.get_default_graph(), wanted.op.name)
    types = Counter(op.type for op in operations)
    assert types["Exp"] == 0
    (product,) = (op for op in operations if op.type == "MatMul")
    assert json.loads(product.attributes) == {"transpose_a": False, "transpose_b": True}
    assert json.loads(product.outputs) == [[2, 2]]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ("_MklNativeConv2D", "Conv2D"),
        ("_MklNativeFusedConv2D", "_FusedConv2D"),
        ("_MklNativeFusedBatchNormGradV3", "FusedBatchNormGradV3"),
        ("_MklFusedBatchNormEx", "_FusedBatchNormEx"),
        ("AssignAdd", "AddV2"),
        ("DestroyTemporaryVariable", "Identity"),
        ("aten::conv2d", "aten::conv2d"),
    ],
)
def test_types_without_their_library(found: str, expected: str) -> None:
    assert canonical(found) == expected
    assert canonical(expected) == expected
