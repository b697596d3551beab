"""A user's Keras model in a TensorFlow 1 graph: the step that `networks/own_keras.py` traced."""

import json
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tensorflow import Tensor

Slopes = list[tuple[Any, Any]]
"""Pairs of a gradient and its variable, as optimizers apply them."""
_AT_VARIABLE = ("ReadVariableOp", "VariableShape", "ResourceGather")
"""Operations that run where their variable is, as do all that assign to one."""


def imported_slopes(file: Path, name: str) -> Slopes:
    """Import a traced step into the current graph and device scope.

    Updates of moving averages are added to the graph's collection `UPDATE_OPS`.

    Args:
        file: what was written of the step, beside its graph.
        name: of the model: variables on a parameter server are known by their names.

    Returns:
        The gradients of the loss, each with its variable, which is drawn anew on initialization.
    """
    import tensorflow.compat.v1 as tf1

    about = json.loads(file.read_text())
    graph_def = tf1.GraphDef.FromString(file.with_suffix(".pb").read_bytes())
    with tf1.variable_scope(name):
        variables = {
            fields["name"]: _variable(f"variable_{place}", fields)
            for place, fields in enumerate(about["variables"])
        }
        given = {fields["name"]: _drawn(fields) for fields in about["inputs"]}
    devices = {
        inner.partition(":")[0]: variable.handle.device for inner, variable in variables.items()
    }
    for node in graph_def.node:
        node.device = _device(node, devices)
    wanted = list(dict.fromkeys(chain(about["updates"], *about["slopes"].values())))
    imported = tf1.import_graph_def(
        graph_def,
        name="step",
        input_map={**given, **{inner: variable.handle for inner, variable in variables.items()}},
        return_elements=wanted,
    )
    by_name = dict(zip(wanted, imported, strict=True))
    for update in about["updates"]:
        tf1.add_to_collection(tf1.GraphKeys.UPDATE_OPS, by_name[update])
    return [
        (_slope([by_name[tensor] for tensor in tensors]), variables[inner])
        for inner, tensors in about["slopes"].items()
    ]


def _variable(name: str, about: Mapping[str, Any]) -> Any:
    """Return a variable of the scale that the user's has: figures of training depend on that."""
    import tensorflow.compat.v1 as tf1

    kind = tf1.as_dtype(about["dtype"])
    if about["deviation"]:
        initializer = tf1.random_normal_initializer(about["mean"], about["deviation"])
    else:
        initializer = tf1.constant_initializer(kind.as_numpy_dtype(about["mean"]))
    return tf1.get_variable(
        name, about["shape"], kind, initializer, trainable=about["trained"], use_resource=True
    )


def _drawn(about: Mapping[str, Any]) -> "Tensor":
    """Return a batch that costs next to nothing, and that no graph folds into a constant."""
    import numpy
    import tensorflow.compat.v1 as tf1

    kind = tf1.as_dtype(about["dtype"])
    if about["least"] is None:
        grey = tf1.cast(tf1.random_uniform((), 0.4, 0.6), kind)
        return tf1.fill(about["shape"], grey)
    least, most = about["least"], about["most"]
    values = numpy.random.default_rng(0).integers(least, most, about["shape"], endpoint=True)
    return tf1.placeholder_with_default(values.astype(kind.as_numpy_dtype), about["shape"])


def _device(node: Any, devices: Mapping[str, str]) -> str:
    """Return where a node must run; nothing where the scope decides."""
    if node.op not in _AT_VARIABLE and not node.op.startswith(("Assign", "Resource")):
        return ""
    return next((devices[source] for source in node.input if source in devices), "")


def _slope(tensors: Sequence["Tensor"]) -> Any:
    import tensorflow as tf

    return tensors[0] if len(tensors) == 1 else tf.IndexedSlices(*tensors)
