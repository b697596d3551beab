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


_WORKER, _SERVER = (f"/job:{job}/replica:0/task:0/device:CPU:0" for job in ("worker", "ps"))
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

    @property
    def unknown(self) -> tuple[str, ...]:
        """Return the names of operations of which not all shapes could be inferred."""
        return tuple(operation.name for operation in self.operations if not operation.known)


def operation_graph(
    dnn: str,
    batch_size: int,
    image_size: int,
    num_classes: int = 10,
    *,
    server: bool = False,
) -> OperationGraph:
    """Return what one step of stochastic gradient descent computes.

    Args:
        dnn: one of `networks.names()`.
        batch_size: images per step.
        image_size: side of an image, pixels.
        num_classes: of the last layer.
        server: variables, and updates of them, are on a parameter server; only what its worker
            computes is returned.

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network.
        RuntimeError: TensorFlow 2 behavior is on.
    """
    import tensorflow.compat.v1 as tf1

    with tf1.Graph().as_default() as graph:
        placement = tf1.train.replica_device_setter(
            ps_tasks=int(server), ps_device=_SERVER, worker_device=_WORKER
        )
        with tf1.device(placement if server else _WORKER):
            loss = training_loss(dnn, batch_size, image_size, num_classes)
            minimize = tf1.train.GradientDescentOptimizer(0.01).minimize(loss)
            step = tf1.group(minimize, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        trained = tf1.trainable_variables()
        parameter_count = sum(variable.shape.num_elements() for variable in trained)
        operations = step_operations(graph, step.name)
    return OperationGraph(dnn, batch_size, image_size, parameter_count, operations)


def own_operation_graph(file: Path, dnn: str, batch_size: int, image_size: int) -> OperationGraph:
    """Return the same of a step of a user's Keras model, which `networks/own_keras.py` traced.

    Args:
        file: what was written of the step.
        dnn: the model's name.
        batch_size: samples of the step.
        image_size: side of its images, pixels; 0: it takes none.
    """
    import tensorflow.compat.v1 as tf1

    with tf1.Graph().as_default() as graph, tf1.device(_WORKER):
        slopes = imported_slopes(file, dnn)
        apply = tf1.train.GradientDescentOptimizer(0.01).apply_gradients(slopes)
        step = tf1.group(apply, *tf1.get_collection(tf1.GraphKeys.UPDATE_OPS))
        trained = sum(variable.shape.num_elements() for _, variable in slopes)
        operations = step_operations(graph, step.name)
    return OperationGraph(dnn, batch_size, image_size, trained, operations)


def step_operations(graph: "Graph", step: str) -> tuple[GraphOperation, ...]:
    """Return the operations that a worker runs for the operation `step` of a TensorFlow 1 graph.

    What the graph does not place anywhere is the worker's.
    """
    import tensorflow.compat.v1 as tf1

    optimised = _optimised(graph, step)
    needed = _needed(step, {node.name: node for node in optimised.node})
    kept = tf1.GraphDef(versions=optimised.versions, library=optimised.library)
    kept.node.extend(node for node in optimised.node if node.name in needed)
    with tf1.Graph().as_default() as inferred:
        tf1.import_graph_def(kept, name="")
    operations = [
        _described(operation)
        for operation in inferred.get_operations()
        if not _on_server(operation)
    ]
    # Grappler's own order differs from one time to the next.
    return tuple(sorted(operations, key=lambda operation: operation.name))


def _on_server(operation: Any) -> bool:
    """Tell whether it is placed there, as what takes a variable's handle is with the variable."""
    handles = (tensor.op for tensor in operation.inputs if tensor.dtype.name == "resource")
    return any("/job:ps/" in placed.device for placed in (operation, *handles))


def _optimised(graph: "Graph", step: str) -> Any:
    """Return the GraphDef after Grappler, for CPUs."""
    import tensorflow.compat.v1 as tf1
    from tensorflow.core.protobuf import config_pb2
    from tensorflow.python.grappler import tf_optimizer

    meta = tf1.train.export_meta_graph(graph=graph, clear_extraneous_savers=True)
    for node in meta.graph_def.node:
        node.device = _SERVER if "/job:ps/" in node.device else _WORKER
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
        attributes=json.dumps(_attributes(operation)),
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
    if not tensor.shape.is_fully_defined():
        return 0
    return int(tensor.shape.num_elements()) * _element_bytes(tensor.dtype.base_dtype)


def _element_bytes(kind: Any) -> int:
    """Return the size of an element; handles of variables and text have none that counts."""
    return 0 if kind.name in ("resource", "variant", "string") else int(kind.size)


def _attributes(operation: Any) -> dict[str, object]:
    given = operation.node_def.attr
    return {name: _plain(operation.get_attr(name)) for name in _ATTRIBUTES if name in given}


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
