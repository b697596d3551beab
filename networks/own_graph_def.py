"""Graphs of traced TensorFlow steps as files, and names for them; needs nothing of this project.

`networks/own_program.py` loads this file where no package of ours may be imported.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

_NOT_NAMED = ("seed", "seed2", "shared_name", "container")
"""Attributes that differ from one process to the next."""
_NOT_WRITTEN = ("graph", "constants")


def write_step(step: Mapping[str, Any], stem: Path) -> str:
    """Write a step that `own_keras` traced, as two files; return that of what is said of it.

    Raises:
        ValueError: it has a loop.
    """
    graph = step["graph"]
    _check_loops(graph)
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


def digest(graph: Any, shapes: Sequence[Sequence[object]]) -> str:
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


def _check_loops(graph: Any) -> None:
    """Refuse loops: nobody knows how often their operations run.

    Raises:
        ValueError: naming the loop.
    """
    for node in graph.node:
        if node.op in ("While", "StatelessWhile"):
            raise ValueError(
                f"it has a loop ({node.name}), and no system tells how often that runs; unroll it, "
                "as by keras.layers.LSTM(…, unroll=True)"
            )
