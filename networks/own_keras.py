"""Traces training steps of a user's Keras model, as TensorFlow graphs that any program can import.

A step is a forward pass in training mode, the cross-entropies of its flattened outputs, and the
gradients, by TensorFlow's own tape: whatever Keras, layers or loops the model is made of. Variables
are inputs of the graph, so that whoever imports it places them. Keras 3 and tf_keras are both fine.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from networks.own_function import batch_dimension, first_line, not_batched

NAMED_AT = 2
"""The batch whose forward pass gives a model its name."""
_WRITES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp")
_NOT_NAMED = ("seed", "seed2", "shared_name", "container")
"""Attributes that differ from one process to the next."""
_NOT_WRITTEN = ("graph", "constants")
_HINT = "call the model with the example batch yourself until that works"


def is_model(model: object) -> bool:
    """Tell whether something is a model of Keras; loads none."""
    loaded = (sys.modules.get(name) for name in ("keras", "tf_keras"))
    kinds = [getattr(module, "Model", None) for module in loaded]
    return any(isinstance(kind, type) and isinstance(model, kind) for kind in kinds)


def trace_model(
    made: object,
    target: str,
    batch_sizes: Sequence[int],
    make: Callable[[int], object] | None,
    out: Path,
) -> dict[str, Any]:
    """Return what is known of a model: its name, and the files of its steps at batches.

    Args:
        made: the model and its batch, as the user's function made them for the first size.
        target: the function.
        batch_sizes: of the steps.
        make: the function; None: it is not told the batch.
        out: folder of the files.

    Raises:
        ValueError: it has no graph, or no step; the message says why and what to do.
    """
    _check_backend(target)
    import tensorflow as tf

    size, *others = dict.fromkeys(batch_sizes)

    def made_of(batch_size: int) -> tuple[Any, Any]:
        again = made if make is None or batch_size == size else make(batch_size)
        return _made_of(again, target)

    named_at = size if make is None else NAMED_AT
    asked, batch = made_of(size)
    another = () if make is None else made_of(named_at if named_at != size else size + 1)
    inputs = tf.nest.flatten(batch)
    batch_dimension(inputs, tf.nest.flatten(another[1]) if another else (), size, target)
    for other in others if make is None else ():
        batch_dimension(inputs, (), other, target)
    model, sample = another if another and named_at != size else (asked, batch)
    _build(model, sample, target)
    _check_precision(model, target)
    given = getattr(model, "inputs", None) or ()
    fixed = any(tensor.shape and tensor.shape[0] for tensor in tf.nest.flatten(given))
    named = _tried(target, lambda: _forward(model, sample), fixed=fixed)
    shape = inputs[0].shape
    # Keras freezes layers, not TensorFlow's variables.
    frozen = {id(_resource(variable).handle) for variable in model.non_trainable_variables}
    steps: dict[str, dict[str, Any]] = {}
    for batch_size in (size, *others):
        each, its_batch = (asked, batch) if batch_size == size else made_of(batch_size)
        try:
            _build(each, sample, target)
            if _shapes(each) != _shapes(model):
                raise ValueError("the model's variables depend on batch_size")
            step = _step(each, its_batch, batch_size)
            steps[str(batch_size)] = {"file": _written(step, out / str(batch_size))}
        except Exception as error:
            reason = str(error) if type(error) is ValueError else f"{first_line(error)}; {_HINT}"
            steps[str(batch_size)] = {"error": reason}
    errors = [step["error"] for step in steps.values() if "error" in step]
    if len(errors) == len(steps):
        raise ValueError(f"{target}: its training step cannot be traced: {errors[0]}")
    shapes = [
        [*each.shape, each.dtype.name, each.trainable and id(each.handle) not in frozen]
        for each in named.variables
    ]
    return {
        "keras": _digest(named.graph.as_graph_def(), shapes),
        "image_size": int(shape[1]) if len(shape) == 4 else 0,
        "parameter_count": sum(
            int(_resource(variable).shape.num_elements()) for variable in model.trainable_variables
        ),
        "not_batched": not_batched(
            () if isinstance(batch, Mapping) else inputs,
            batch if isinstance(batch, Mapping) else {},
            size,
        ),
        "steps": steps,
    }


def _made_of(made: object, target: str) -> tuple[Any, Any]:
    """Return a model and its batch, of arrays.

    Raises:
        ValueError: one is missing, or there is text in the batch.
    """
    if not isinstance(made, tuple) or len(made) != 2:
        raise ValueError(
            f"{target}: expected a Keras model and an example batch, found the model alone; return "
            "both: `return model, numpy.zeros((8, 64, 64, 3), 'float32')`"
        )
    import numpy
    import tensorflow as tf

    batch = tf.nest.map_structure(numpy.asarray, made[1])
    leaves = tf.nest.flatten(batch)
    for leaf in leaves or [numpy.zeros(())]:
        if not leaf.ndim or not leaf.size or leaf.dtype.kind not in "biuf":
            raise ValueError(
                f"{target}: expected as an example batch arrays of numbers whose first dimension "
                f"is the batch, found {leaf.dtype.name} of shape {list(leaf.shape)}; text is "
                "turned into numbers before the model"
            )

    return made[0], tf.nest.map_structure(
        lambda leaf: leaf.astype("float32") if leaf.dtype.kind == "f" else leaf, batch
    )


def _build(model: Any, sample: Any, target: str) -> None:
    """Make the variables of a model that has none before it is called."""
    import tensorflow as tf

    if not getattr(model, "built", False):
        _tried(target, lambda: model(tf.nest.map_structure(tf.constant, sample)))


def _shapes(model: Any) -> list[tuple[int, ...]]:
    return [tuple(variable.shape) for variable in model.variables]


def _check_backend(target: str) -> None:
    keras: Any = sys.modules.get("keras")
    backend = getattr(getattr(keras, "config", None), "backend", lambda: "tensorflow")()
    if backend != "tensorflow":
        raise ValueError(
            f"{target}: Keras runs on {backend} here, and its graph is TensorFlow's; unset "
            "KERAS_BACKEND"
        )


def _check_precision(model: Any, target: str) -> None:
    """Refuse layers that compute in anything but float32: no forecast knows their time.

    What is frozen is in the graph of a step, which has no gradients of it, and in the name.

    Raises:
        ValueError: naming the first such layer.
    """
    for part in model._flatten_layers():  # noqa: SLF001
        policy = getattr(part, "dtype_policy", None)
        kinds = {getattr(policy, kind, None) for kind in ("compute_dtype", "variable_dtype")}
        name = str(getattr(policy, "name", ""))
        other = any("float" in str(kind) and kind != "float32" for kind in kinds if kind)
        if other or "_from_" in name:
            raise ValueError(
                f"{target}: layer {part.name} computes as {name}, expected float32; no forecast "
                "knows what that changes, so leave its dtype and the global policy out"
            )


def _tried(target: str, make: Callable[[], Any], *, fixed: bool = False) -> Any:
    """Return what a call of the model makes.

    Raises:
        ValueError: it failed.
    """
    try:
        return make()
    except Exception as error:
        hint = "leave batch_size out of keras.Input" if fixed else _HINT
        raise ValueError(
            f"{target}: its forward pass failed: {first_line(error)}; {hint}"
        ) from error


def _specs(batch: Any) -> Any:
    import tensorflow as tf

    return tf.nest.map_structure(lambda leaf: tf.TensorSpec(leaf.shape, leaf.dtype), batch)


def _forward(model: Any, batch: Any) -> Any:
    import tensorflow as tf

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def forward(given: Any) -> Any:
        return model(given, training=True)

    return forward.get_concrete_function(_specs(batch))


def _step(model: Any, batch: Any, size: int) -> dict[str, Any]:
    """Return a training step: its graph, and what of it is given, read and returned.

    Raises:
        ValueError: nothing that it returns depends on its variables, or it reads a table.
    """
    import tensorflow as tf

    variables = [_resource(variable) for variable in model.trainable_variables]

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(given: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.add_n([*_losses(model(given, training=True), size), *model.losses])
        return loss, tape.gradient(loss, variables)

    concrete = step.get_concrete_function(_specs(batch))
    loss, slopes = concrete.graph.structured_outputs
    if all(slope is None for slope in slopes):
        raise ValueError("the model returns nothing that depends on its variables")
    read = {id(variable.handle): variable for variable in concrete.variables}
    captured = [(read.get(id(outer)), outer, inner) for outer, inner in concrete.graph.captures]
    places = {id(variable): inner.name for variable, _, inner in captured if variable is not None}
    order = [*variables, *(variable for variable in read.values() if not variable.trainable)]
    return {
        "graph": concrete.graph.as_graph_def(),
        "constants": _constants(captured),
        "inputs": [
            {
                "name": inner.name,
                "shape": list(leaf.shape),
                "dtype": leaf.dtype.name,
                "least": None if leaf.dtype.kind == "f" else int(leaf.min()),
                "most": None if leaf.dtype.kind == "f" else int(leaf.max()),
            }
            for inner, leaf in zip(concrete.graph.inputs, tf.nest.flatten(batch), strict=False)
        ],
        "variables": [
            {"name": places[id(variable)], **_described(variable)}
            for variable in order
            if id(variable) in places
        ],
        "loss": _before(loss),
        "slopes": {
            places[id(variable)]: _slope(slope)
            for variable, slope in zip(variables, slopes, strict=True)
            if slope is not None
        },
        "updates": [
            operation.name
            for operation in concrete.graph.get_operations()
            if operation.type in _WRITES
        ],
    }


def _losses(out: Any, size: int) -> list[Any]:
    """Return the cross-entropy of each output; one of no dimensions is a loss already.

    Rows that are not as many as the samples have labels of their own, all of the first class.

    Raises:
        ValueError: there is none, or the shape of one depends on values.
    """
    import tensorflow as tf

    losses = []
    for tensor in tf.nest.flatten(out):
        if not tensor.dtype.is_floating:
            continue
        if tensor.shape.rank == 0:
            losses.append(tf.cast(tensor, tf.float32))
            continue
        rows = tensor.shape[0] or size
        logits = tf.cast(tf.reshape(tensor, (rows, -1)), tf.float32)
        classes = logits.shape[1]
        if classes is None:
            raise ValueError(
                "the shape of what the model returns depends on the values of its batch"
            )
        labels = tf.constant([row % classes if rows == size else 0 for row in range(rows)])
        entropies = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        losses.append(tf.reduce_mean(entropies))
    if not losses:
        raise ValueError("the model returns no numbers that depend on its variables")
    return losses


def _constants(captured: Iterable[tuple[Any, Any, Any]]) -> dict[str, Any]:
    """Return the values of what a graph reads that is no variable.

    Raises:
        ValueError: it reads a table.
    """
    import tensorflow as tf

    constants = {}
    for variable, outer, inner in captured:
        if variable is None and outer.dtype == tf.resource:
            raise ValueError(f"it reads a table ({inner.name}); look words up before the model")
        if variable is None:
            constants[inner.op.name] = tf.make_tensor_proto(outer)
    return constants


def _described(variable: Any) -> dict[str, Any]:
    """Return what a variable is, and the scale of its values: programs draw such ones anew."""
    values = variable.numpy()
    drawn = values.dtype.kind == "f"
    return {
        "shape": list(variable.shape),
        "dtype": variable.dtype.name,
        "trained": bool(variable.trainable),
        "mean": float(values.mean()) if drawn and values.size else 0.0,
        "deviation": float(values.std()) if drawn and values.size else 0.0,
    }


def _slope(slope: Any) -> list[str]:
    """Return the tensor of a gradient; of some rows alone also their places and the shape."""
    if hasattr(slope, "indices"):
        return [_before(tensor) for tensor in (slope.values, slope.indices, slope.dense_shape)]
    return [_before(slope)]


def _before(tensor: Any) -> str:
    """Return the tensor that a result copies: the copy waits for all updates of variables."""
    copied = tensor.op.type == "Identity" and tensor.op.control_inputs
    return str((tensor.op.inputs[0] if copied else tensor).name)


def _resource(variable: Any) -> Any:
    """Return TensorFlow's variable, which Keras 3 wraps."""
    import tensorflow as tf

    return variable if isinstance(variable, tf.Variable) else variable.value


def _written(step: Mapping[str, Any], stem: Path) -> str:
    """Write a step as two files; return that of what is said of its graph.

    Raises:
        ValueError: it has a loop.
    """
    graph = step["graph"]
    for node in graph.node:
        if node.op in ("While", "StatelessWhile"):  # nobody knows how often their operations run
            raise ValueError(
                f"it has a loop ({node.name}), and no system tells how often that runs; unroll it, "
                "as by keras.layers.LSTM(…, unroll=True)"
            )
    constants = step["constants"]  # which TensorFlow keeps beside a graph
    for node in graph.node:
        node.device = ""
        node.attr.pop("_class", None)
        if node.name in constants:
            node.op = "Const"
            node.attr.pop("shape", None)
            node.attr["value"].tensor.CopyFrom(constants[node.name])
    stem.with_suffix(".pb").write_bytes(graph.SerializeToString())
    about = {name: value for name, value in step.items() if name not in _NOT_WRITTEN}
    file = stem.with_suffix(".json")
    file.write_text(json.dumps(about))
    return str(file)


def _digest(graph: Any, shapes: Sequence[Sequence[object]]) -> str:
    """Return a hash of what a graph computes, whatever its nodes are called."""
    places = {node.name: place for place, node in enumerate(graph.node)}

    def source(name: str) -> str:
        node, _, port = name.removeprefix("^").partition(":")
        return f"{'^' if name[0] == '^' else ''}{places[node]}:{port}"

    def attributes(node: Any) -> list[str]:
        kept = {
            name: value.SerializeToString(deterministic=True).hex()
            for name, value in node.attr.items()
            if name not in _NOT_NAMED and name[0] != "_" and value.WhichOneof("value") != "func"
        }
        return sorted(f"{name}={text}" for name, text in kept.items())

    nodes = [[node.op, list(map(source, node.input)), attributes(node)] for node in graph.node]
    inner = [[node.op for node in function.node_def] for function in graph.library.function]
    text = json.dumps([nodes, sorted(inner), sorted(map(str, shapes))])
    return sha256(text.encode()).hexdigest()[:8]
