"""Operation graphs in a program that must not load a framework: a child process extracts them."""

import json
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import Any

from networks import catalogue
from networks.catalogue import OWN, UnknownNetwork, check
from networks.kept_graphs import GraphCache, extracting
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
    words = ["own", f"{dnn}:{batch_size}:{image_size}:{file}"]
    with extracting(f"the graph of {dnn}", words) as lines:
        return _of_fields(json.loads(lines()[-1]))


def primitive_graphs(wanted: Iterable[tuple[str, int]]) -> Mapping[tuple[str, int], PrimitiveGraph]:
    """Return `primitive_graph` of PyTorch's networks, by name and side of their images.

    Raises:
        UnknownNetwork: no network has such a name.
        ValueError: the images are too small for a network, or too much of the work of a user's is
            unknown.
        RuntimeError: the child process failed; the message has the end of what it wrote.
    """
    keys, own = list(wanted), dict[tuple[str, int], PrimitiveGraph]()
    for dnn, image_size in keys:
        check(dnn, image_size, "pytorch")
        if (model := catalogue.OWN_MODELS.get(dnn)) is not None and model.graph is not None:
            if model.too_unknown:
                raise ValueError(model.too_unknown)
            own[dnn, image_size] = model.graph
    return own | _PRIMITIVES.get(key for key in keys if key not in own)


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


_OWN_MODELS_LOCK = Lock()


def register_own_model(model: OwnModel, source: tuple[str, str] | None = None) -> None:
    """Take a user's model for a network, as long as this process lives.

    Args:
        model: what was traced of it.
        source: the module:function that builds it, and the folder that has it.
    """
    with _OWN_MODELS_LOCK:
        known = catalogue.OWN_MODELS.get(model.dnn, model)
        catalogue.OWN_MODELS[model.dnn] = replace(
            model,
            source=source,
            steps={**known.steps, **model.steps},
            gpu_steps={**known.gpu_steps, **model.gpu_steps},
        )
        catalogue.OWN_MODELS.move_to_end(model.dnn)


def forget_own_models(but: int) -> None:
    """Forget users' models but so many, those that were registered last."""
    with _OWN_MODELS_LOCK:
        while len(catalogue.OWN_MODELS) > but:
            catalogue.OWN_MODELS.popitem(last=False)


def own_step(dnn: str, batch_size: int) -> OperationGraph | Path | str:
    """Return a training step of a user's model, of Keras's its file; or why nobody knows it."""
    unknown = "its training step was not traced: give the package.module:function that builds it"
    known = catalogue.OWN_MODELS.get(dnn)
    return unknown if known is None else known.steps.get(batch_size, unknown)


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


_EXTRACTORS = {
    "primitives": ("pytorch_graph", "primitive_graph"),
    "gpu": ("pytorch_graph", "gpu_step_fields"),
    "step-pytorch": ("pytorch_graph", "pytorch_graph"),
    "step-tensorflow": ("operation_graph", "operation_graph"),
    "own": ("operation_graph", "own_operation_graph"),
}
"""Modules and functions that extract graphs, by kind."""


def main() -> None:
    """Write the graphs that the command line names to stdout, a line of JSON each."""
    kind, *words = sys.argv[1:]
    module, function = _EXTRACTORS[kind]
    if module == "operation_graph":
        import tensorflow.compat.v1 as tf1

        tf1.disable_v2_behavior()
    extracted = getattr(import_module(f"networks.{module}"), function)
    for word in words:
        graph = extracted(*(int(it) if it.isdigit() else it for it in word.split(":", 3)))
        fields = graph if isinstance(graph, dict) else asdict(graph)
        sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
    os._exit(0)  # an interpreter that has PyTorch takes half a second to close down
