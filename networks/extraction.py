"""Operation graphs in a program that must not load a framework: a child process extracts them."""

import json
import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from networks.catalogue import (
    OWN,
    UnknownNetwork,
    check,
    forget_own_network,
    register_own_network,
)
from networks.gpu_steps import forget_own_steps, register_own_steps
from networks.kept_graphs import GraphCache, extract
from networks.operation_graph import GraphOperation, OperationGraph
from networks.own_model import OwnModel
from networks.primitives import PrimitiveGraph


def extract_graph(
    dnn: str, batch_size: int, image_size: int, framework: str = "tensorflow"
) -> OperationGraph:
    """Return `operation_graph` or `pytorch_graph`; asked again for the same, it is at hand.

    Takes some seconds to load the framework, and for TensorFlow's networks of thousands of
    operations up to a minute. Users' models were traced before: see `register_own_model`.

    Raises:
        UnknownNetwork: no network has that name.
        ValueError: the images are too small for the network, or it is a user's whose step could not
            be traced at this batch.
        RuntimeError: the child process failed; the message has the end of what it wrote.
    """
    check(dnn, image_size, framework)
    if dnn.startswith(OWN):
        step = own_step(dnn, batch_size)
        if isinstance(step, str):
            raise ValueError(step)
        if isinstance(step, OperationGraph):
            return step
        return _own_extracted(step, dnn, batch_size, image_size)
    key = dnn, batch_size, image_size
    return step_graphs([key], framework)[key]


def step_graphs(
    wanted: Iterable[tuple[str, int, int]], framework: str
) -> Mapping[tuple[str, int, int], OperationGraph]:
    """Return graphs as `extract_graph` does, of many networks, batches and sides of images at once.

    Raises:
        UnknownNetwork: no network of ours has such a name.
        ValueError: the images are too small for a network.
        RuntimeError: a child process failed; the message has the end of what it wrote.
    """
    keys = list(wanted)
    for dnn, _, image_size in keys:
        check(dnn, image_size, framework)
    return _STEP_GRAPHS[framework].get(keys)


@lru_cache(maxsize=64)
def _own_extracted(file: Path, dnn: str, batch_size: int, image_size: int) -> OperationGraph:
    words = ["own", str(file), dnn, str(batch_size), str(image_size)]
    return _of_fields(json.loads(extract(f"the graph of {dnn}", words)[-1]))


def primitive_graphs(
    wanted: Iterable[tuple[str, int]],
) -> Mapping[tuple[str, int], PrimitiveGraph]:
    """Return `primitive_graph` of PyTorch's networks, by name and side of their images.

    Raises:
        UnknownNetwork: no network has such a name.
        ValueError: the images are too small for a network, or too much of the work of a user's is
            unknown.
        RuntimeError: the child process failed; the message has the end of what it wrote.
    """
    keys = list(wanted)
    for dnn, image_size in keys:
        check(dnn, image_size, "pytorch")
        if dnn in _TOO_UNKNOWN:
            raise ValueError(_TOO_UNKNOWN[dnn])
    return _PRIMITIVES.get(keys)


def _of_fields(fields: dict[str, Any]) -> OperationGraph:
    operations = tuple(GraphOperation(**operation) for operation in fields.pop("operations"))
    return OperationGraph(**fields, operations=operations)


_STEP_GRAPHS: Mapping[str, GraphCache[tuple[str, int, int], OperationGraph]] = {
    framework: GraphCache(f"step-{framework}", _of_fields, at_hand=128, at_once=12)
    for framework in ("tensorflow", "pytorch")
}
"""By framework; each is a megabyte, and TensorFlow takes a minute for the largest."""
_PRIMITIVES = GraphCache[tuple[str, int], PrimitiveGraph](
    "primitives", PrimitiveGraph.of, at_hand=1024, at_once=256
)
_REGISTERED = OrderedDict[str, None]()
"""Users' models that this process knows, the latest last."""
_TOO_UNKNOWN: dict[str, str] = {}
"""Users' models whose graphs do not tell how much work they are, and why."""
_STEPS: dict[str, dict[int, OperationGraph | Path | str]] = {}
"""Training steps of users' models by name and batch, those of Keras's as files; or why not."""


def register_own_model(model: OwnModel, source: tuple[str, str] | None = None) -> None:
    """Take a user's model for a network, as long as this process lives.

    Args:
        model: what was traced of it.
        source: the module:function that builds it, and the folder that has it.
    """
    _REGISTERED[model.dnn] = None
    _REGISTERED.move_to_end(model.dnn)
    register_own_network(model.dnn, model.image_size, source, model.framework)
    if model.graph is not None:
        _PRIMITIVES.put((model.dnn, model.image_size), model.graph)
    if model.too_unknown:
        _TOO_UNKNOWN[model.dnn] = model.too_unknown
    register_own_steps(model.dnn, model.image_size, model.gpu_steps)
    _STEPS.setdefault(model.dnn, {}).update(model.steps)


def forget_own_models(but: int) -> None:
    """Forget users' models but so many, those that were registered last."""
    for dnn in list(_REGISTERED)[:-but]:
        for forget in (_REGISTERED.pop, _STEPS.pop, _TOO_UNKNOWN.pop):
            forget(dnn, None)
        for forget_of in (_PRIMITIVES.forget, forget_own_steps, forget_own_network):
            forget_of(dnn)


def own_step(dnn: str, batch_size: int) -> OperationGraph | Path | str:
    """Return a training step of a user's model, of Keras's its file; or why nobody knows it."""
    unknown = "its training step was not traced: give the package.module:function that builds it"
    return _STEPS.get(dnn, {}).get(batch_size, unknown)


def step_file(dnn: str, batch_size: int) -> str:
    """Return the file of a user's Keras model's traced step; nothing of a network of ours.

    Raises:
        UnknownNetwork: it is a user's model, and was not traced in this process.
    """
    if not dnn.startswith(OWN):
        return ""
    check(dnn, framework="tensorflow")
    step = own_step(dnn, batch_size)
    if not isinstance(step, Path):
        raise UnknownNetwork(f"{dnn}: it has no step of {batch_size} samples: {step}")
    return str(step)


def main() -> None:
    """Write the graphs that the command line names to stdout, a line of JSON each."""
    if sys.argv[1] == "primitives":
        from networks.pytorch_graph import primitive_graph

        for dnn, _, image_size in (word.partition(":") for word in sys.argv[2:]):
            sys.stdout.write(primitive_graph(dnn, int(image_size)).to_json() + "\n")
        return
    if sys.argv[1] == "gpu":
        from networks.pytorch_graph import gpu_step_fields

        for dnn, batch_size, image_size, precision in (word.split(":") for word in sys.argv[2:]):
            fields = gpu_step_fields(dnn, int(batch_size), int(image_size), precision)
            sys.stdout.write(json.dumps(fields) + "\n")
        return
    if sys.argv[1] == "own":
        import tensorflow.compat.v1 as tf1

        from networks.operation_graph import own_operation_graph

        tf1.disable_v2_behavior()
        _, file, dnn, batch_size, image_size = sys.argv[1:]
        graph = own_operation_graph(Path(file), dnn, int(batch_size), int(image_size))
        sys.stdout.write(json.dumps(asdict(graph)))
        return
    kind, *wanted = sys.argv[1:]
    if kind == "step-pytorch":
        from networks.pytorch_graph import pytorch_graph as extract
    else:
        import tensorflow.compat.v1 as tf1

        from networks.operation_graph import operation_graph as extract

        tf1.disable_v2_behavior()
    for dnn, batch_size, image_size in (word.split(":") for word in wanted):
        step_graph = extract(dnn, int(batch_size), int(image_size))
        sys.stdout.write(json.dumps(asdict(step_graph)) + "\n")


if __name__ == "__main__":
    main()
