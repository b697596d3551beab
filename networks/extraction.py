"""Operation graphs in a program that must not load a framework: a child process extracts them."""

import json
import os
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from networks.catalogue import OWN, UnknownNetwork, check, register_own_network
from networks.gpu_steps import register_own_steps
from networks.kept_graphs import keep, kept
from networks.operation_graph import GraphOperation, OperationGraph
from networks.own_model import OwnModel
from networks.primitives import PrimitiveGraph

_TIMEOUT_S = 900.0
_TOGETHER = 12
"""Steps that one child process extracts: it loads its framework once for them."""
_KEPT, _KEPT_PRIMITIVES = 128, 1024
"""At hand: the newest steps, a megabyte each; primitives that were asked for last, some 100 kB."""


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

    Child processes extract what is neither at hand nor kept (`networks.kept_graphs`), a dozen each:
    PyTorch's take two seconds, and half of one for each network.

    Raises:
        UnknownNetwork: no network of ours has such a name.
        ValueError: the images are too small for a network.
        RuntimeError: a child process failed; the message has the end of what it wrote.
    """
    keys = list(dict.fromkeys(wanted))
    for dnn, _, image_size in keys:
        check(dnn, image_size, framework)
    names = {key: "-".join(map(str, ("step", framework, *key))) for key in keys}
    missing = []
    for key in keys:
        if (*key, framework) not in _GRAPHS:
            graph = _kept(names[key], _of_fields)
            if graph is None:
                missing.append(key)
            else:
                _GRAPHS[*key, framework] = graph
    for start in range(0, len(missing), _TOGETHER):
        some = missing[start : start + _TOGETHER]
        words = [":".join(map(str, key)) for key in some]
        lines = told(f"the graph of {some[0][0]}", ["steps", framework, *words])
        for key, text in zip(some, lines[-len(some) :], strict=True):
            _GRAPHS[*key, framework] = _of_fields(json.loads(text))
            keep(names[key], text)
    graphs = {key: _GRAPHS[*key, framework] for key in keys}
    while len(_GRAPHS) > _KEPT:
        _GRAPHS.popitem(last=False)
    return graphs


@lru_cache(maxsize=64)
def _own_extracted(file: Path, dnn: str, batch_size: int, image_size: int) -> OperationGraph:
    words = ["own", str(file), dnn, str(batch_size), str(image_size)]
    return _of_fields(json.loads(told(f"the graph of {dnn}", words)[-1]))


def primitive_graphs(
    wanted: Iterable[tuple[str, int]],
) -> Mapping[tuple[str, int], PrimitiveGraph]:
    """Return `primitive_graph` of PyTorch's networks, by name and side of their images.

    One child process extracts all that are neither at hand nor kept (`networks.kept_graphs`): two
    seconds, and some tenths for each.

    Raises:
        UnknownNetwork: no network has such a name.
        ValueError: the images are too small for a network, or too much of the work of a user's is
            unknown.
        RuntimeError: the child process failed; the message has the end of what it wrote.
    """
    keys = list(dict.fromkeys(wanted))
    for dnn, image_size in keys:
        check(dnn, image_size, "pytorch")
        if dnn in _TOO_UNKNOWN:
            raise ValueError(_TOO_UNKNOWN[dnn])
    with _LOCK:
        graphs = {key: _PRIMITIVES[key] for key in keys if key in _PRIMITIVES}
    names = {key: "-".join(map(str, ("primitives", *key))) for key in keys}
    missing = []
    for key in keys:
        if key not in graphs:
            graph = _kept(names[key], PrimitiveGraph.of)
            if graph is None:
                missing.append(key)
            else:
                graphs[key] = graph
    if missing:
        words = ["primitives", *(f"{dnn}:{image_size}" for dnn, image_size in missing)]
        lines = told(f"the graph of {missing[0][0]}", words)
        for key, text in zip(missing, lines[-len(missing) :], strict=True):
            graphs[key] = PrimitiveGraph.of(json.loads(text))
            keep(names[key], text)
    with _LOCK:
        _keep_newest(graphs)
    return {key: graphs[key] for key in keys}


def _keep_newest(graphs: Mapping[tuple[str, int], PrimitiveGraph]) -> None:
    """Keep graphs at hand, and let the oldest go, but of users' models: nobody extracts them."""
    for key, graph in graphs.items():
        _PRIMITIVES.pop(key, None)
        _PRIMITIVES[key] = graph
    if len(_PRIMITIVES) > _KEPT_PRIMITIVES:
        for key in [key for key in _PRIMITIVES if not key[0].startswith(OWN)][:-_KEPT_PRIMITIVES]:
            del _PRIMITIVES[key]


_GRAPHS: OrderedDict[tuple[str, int, int, str], OperationGraph] = OrderedDict()
_PRIMITIVES: dict[tuple[str, int], PrimitiveGraph] = {}
_TOO_UNKNOWN: dict[str, str] = {}
"""Users' models whose graphs do not tell how much work they are, and why."""
_LOCK = Lock()
_STEPS: dict[tuple[str, int], OperationGraph | Path | str] = {}
"""Training steps of users' models by name and batch, those of Keras's as files; or why not."""


def register_own_model(model: OwnModel, source: tuple[str, str] | None = None) -> None:
    """Take a user's model for a network, as long as this process lives.

    Args:
        model: what was traced of it.
        source: the module:function that builds it, and the folder that has it.
    """
    register_own_network(model.dnn, model.image_size, source, model.framework)
    if model.graph is not None:
        with _LOCK:
            _PRIMITIVES[model.dnn, model.image_size] = model.graph
    if model.too_unknown:
        _TOO_UNKNOWN[model.dnn] = model.too_unknown
    register_own_steps(model.dnn, model.image_size, model.gpu_steps)
    _STEPS.update({(model.dnn, size): step for size, step in model.steps.items()})


def own_step(dnn: str, batch_size: int) -> OperationGraph | Path | str:
    """Return a training step of a user's model, of Keras's its file; or why nobody knows it."""
    unknown = "its training step was not traced: give the package.module:function that builds it"
    return _STEPS.get((dnn, batch_size), unknown)


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


def told(what: str, arguments: list[str]) -> list[str]:
    """Return the lines that a child process writes.

    Raises:
        RuntimeError: it failed, or took too long.
    """
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[1]),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": "1",
    }
    # It ends with this process, whoever ends that.
    bound = ["setpriv", "--pdeathsig", "KILL"]
    command = [*bound, sys.executable, "-m", "networks.extraction", *arguments]
    try:
        child = subprocess.run(
            command,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{what} could not be extracted within {_TIMEOUT_S:g} s") from error
    if child.returncode < 0:
        ended = signal.Signals(-child.returncode).name
        raise RuntimeError(
            f"{what} could not be extracted: {ended} ended the process, as where memory runs out"
        )
    if child.returncode:
        *_, last = child.stderr.strip().splitlines() or ["it wrote nothing"]
        raise RuntimeError(f"{what} could not be extracted: {last}")
    # TensorFlow may write lines of its own before.
    return child.stdout.splitlines()


_Graph = TypeVar("_Graph")


def _kept(name: str, of_fields: Callable[[dict[str, Any]], _Graph]) -> _Graph | None:
    """Return a graph that was kept, None if it was not, or what is there is none."""
    try:
        fields = kept(name)
        return None if fields is None else of_fields(fields)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None


def _of_fields(fields: dict[str, Any]) -> OperationGraph:
    operations = tuple(GraphOperation(**operation) for operation in fields.pop("operations"))
    return OperationGraph(**fields, operations=operations)


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
    _, framework, *wanted = sys.argv[1:]
    if framework == "pytorch":
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
