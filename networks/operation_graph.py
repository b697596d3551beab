"""What a training step computes, from the DNN's graph alone: operations and what they work on.

The graph is pruned, folded and fused as TensorFlow does before it runs one, by the same code
(Grappler), and shapes are inferred; nothing runs. Types are canonical, so that they are those of an
executed graph whatever library computes them.
"""

import json
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from networks.own_step import imported_slopes
from networks.tensorflow_training import training_loss

if TYPE_CHECKING:
    from tensorflow import Graph


_WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
_ATTRIBUTES = ("strides", "padding", "ksize", "dilations", "transpose_a", "transpose_b")


@dataclass(frozen=True)
class GraphOperation:
    """An operation of a step; shapes and attributes are JSON as in table `operation_shape`.

    `flops` are floating-point operations, None where nobody counted them.

    `known` is false where a dimension could not be inferred; it counts as 0 elements then, as does
    scratch space that one kernel leaves to another, whose size depends on the device.
    """

    name: str
    type: str
    inputs: str
    outputs: str
    attributes: str
    input_bytes: int
    output_bytes: int
    known: bool = True
    flops: float | None = None


@dataclass(frozen=True)
class OperationGraph:
    """The operations of a training step on one device, and the trained parameters."""

    dnn: str
    batch_size: int
    image_size: int
    parameter_count: int
    operations: tuple[GraphOperation, ...]


def operation_graph(dnn: str, batch_size: int, image_size: int) -> OperationGraph:
    """Return what one step of stochastic gradient descent computes.

    Args:
        dnn: one of `networks.names()`.
        batch_size: images per step.
        image_size: side of an image, pixels.

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network.
        RuntimeError: TensorFlow 2 behavior is on.
    """
    import tensorflow.compat.v1 as tf1

    with tf1.Graph().as_default() as graph, tf1.device(_WORKER):
        loss = training_loss(dnn, batch_size, image_size)
        minimize = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
        step = tf1.group(minimize, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        trained = tf1.trainable_variables()
        parameter_count = sum(variable.shape.num_elements() for variable in trained)
        operations = step_operations(graph, step.name)
    return OperationGraph(dnn, batch_size, image_size, parameter_count, operations)


def own_operation_graph(dnn: str, batch_size: int, image_size: int, file: str) -> OperationGraph:
    """Return the same of a step of a user's Keras model, which `networks/own_keras.py` traced.

    Args:
        dnn: the model's name.
        batch_size: samples of the step.
        image_size: side of its images, pixels; 0: it takes none.
        file: what was written of the step.
    """
    import tensorflow.compat.v1 as tf1

    with tf1.Graph().as_default() as graph, tf1.device(_WORKER):
        slopes = imported_slopes(Path(file), dnn)
        apply = tf1.train.GradientDescentOptimizer(0.01).apply_gradients(slopes)
        step = tf1.group(apply, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        trained = sum(variable.shape.num_elements() for _, variable in slopes)
        operations = step_operations(graph, step.name)
    return OperationGraph(dnn, batch_size, image_size, trained, operations)


def step_operations(graph: "Graph", step: str) -> tuple[GraphOperation, ...]:
    """Return the operations that run for the operation `step` of a TensorFlow 1 graph."""
    import tensorflow.compat.v1 as tf1

    optimised = _optimised(graph, step)
    needed = _needed(step, {node.name: node for node in optimised.node})
    kept = tf1.GraphDef(versions=optimised.versions, library=optimised.library)
    kept.node.extend(node for node in optimised.node if node.name in needed)
    with tf1.Graph().as_default() as inferred:
        tf1.import_graph_def(kept, name="")
    # Grappler's own order differs from one time to the next.
    return tuple(
        sorted(map(_described, inferred.get_operations()), key=lambda operation: operation.name)
    )


def _optimised(graph: "Graph", step: str) -> Any:
    """Return the GraphDef after Grappler, for CPUs."""
    import tensorflow.compat.v1 as tf1
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta = tf1.train.export_meta_graph(graph=graph, clear_extraneous_savers=True)
    for node in meta.graph_def.node:
        node.device = _WORKER
    # Grappler keeps what collections name: of all of them only the step shall stay.
    meta.ClearField("collection_def")
    meta.collection_def["train_op"].node_list.value.append(step)
    config = config_pb2.ConfigProto()
    config.graph_options.rewrite_options.min_graph_nodes = -1
    return tf_optimizer.OptimizeGraph(config, meta, verbose=False)


def _needed(step: str, nodes: Mapping[str, Any]) -> set[str]:
    """Return the names of a node and of all it waits for."""
    needed = {step}
    todo = deque(needed)
    while todo:
        for source in nodes[todo.popleft()].input:
            name = source.removeprefix("^").partition(":")[0]
            if name not in needed:
                needed.add(name)
                todo.append(name)
    return needed


def _described(operation: Any) -> GraphOperation:
    inputs, outputs = list(operation.inputs), list(operation.outputs)
    return GraphOperation(
        name=operation.name,
        type=canonical(operation.type),
        inputs=json.dumps([_shape(tensor) for tensor in inputs]),
        outputs=json.dumps([_shape(tensor) for tensor in outputs]),
        attributes=json.dumps(
            {
                name: _plain(operation.get_attr(name))
                for name in _ATTRIBUTES
                if name in operation.node_def.attr
            }
        ),
        input_bytes=sum(map(_bytes, inputs)),
        output_bytes=sum(map(_bytes, outputs)),
        known=all(
            tensor.shape.is_fully_defined() or _is_scratch(tensor) for tensor in (*inputs, *outputs)
        ),
    )


def _is_scratch(tensor: Any) -> bool:
    given = tensor.op.op_def.output_arg
    index = tensor.value_index
    return index < len(given) and str(given[index].name).startswith("reserve_space")


def _shape(tensor: Any) -> list[int]:
    """Return the shape; what is not known of it is 0."""
    if tensor.shape.rank is None:
        return [0]
    return [size or 0 for size in tensor.shape.as_list()]


def _bytes(tensor: Any) -> int:
    """Return the size of a tensor; handles of variables and text have none that counts."""
    kind = tensor.dtype.base_dtype
    if not tensor.shape.is_fully_defined() or kind.name in ("resource", "variant", "string"):
        return 0
    return int(tensor.shape.num_elements()) * int(kind.size)


def _plain(value: Any) -> object:
    if isinstance(value, bytes):
        return value.decode()
    return list(value) if isinstance(value, Iterable) and not isinstance(value, str) else value


# One name for each kind of operation, whatever library computes it; loads no framework.


_LIBRARY = re.compile(r"^_Mkl(?:Native)?(?=[A-Z])")
_FUSED = ("FusedConv2D", "FusedMatMul", "FusedBatchNormEx", "FusedDepthwiseConv2dNative")
_TEMPORARY = {"Assign": "AddV2", "AssignAdd": "AddV2", "DestroyTemporaryVariable": "Identity"}
"""What Grappler makes of a sum that needs much memory: it writes and adds its terms, one by one,
to a temporary variable, which is then handed on."""


def canonical(operation_type: str) -> str:
    """Return the type that an operation has in the graph that the user wrote.

    oneDNN's rewriting of a TensorFlow graph prefixes types (`_MklNativeConv2D` is `Conv2D`).
    Operations that Grappler fused from several keep the name of the fusion (`_FusedConv2D`): one
    takes the time of all of them. Additions to a temporary variable, which it makes of large sums,
    are additions. PyTorch's types (`aten::conv2d`) stay as they are.
    """
    name = _LIBRARY.sub("", operation_type)
    name = _TEMPORARY.get(name, name)
    return f"_{name}" if name in _FUSED else name
