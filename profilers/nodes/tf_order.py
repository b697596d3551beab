"""Making servers send parameters in the order TIC.

A server sends one once its read has run and the worker has asked for it. Control dependencies chain
the reads on the server; the first of them waits until a small parameter has travelled to the
worker, by when the worker has asked for most of the others. What is kept of the order shows in
captured packets (lab/async_sgd.md).
"""

from collections.abc import Mapping
from math import prod
from typing import Any

from networks.variables import tic

_VARIABLES = ("VarHandleOp", "VariableV2")
_FLOAT, _INT32 = 1, 3
"""TensorFlow's numbers of these types."""


def with_order(graph: Any, step: str, worker: str) -> Any:
    """Return the graph of a worker, in whose `step` servers send in the order TIC."""
    import tensorflow.compat.v1 as tf

    graph_def = graph.as_graph_def()
    enforce(graph_def, step, worker)
    with tf.Graph().as_default() as ordered:
        tf.import_graph_def(graph_def, name="")
    return ordered


def enforce(graph_def: Any, target: str, worker: str) -> list[str]:
    """Chain the servers' reads of parameters in a graph that trains, in place.

    Args:
        graph_def: a `tf.compat.v1.GraphDef` whose nodes are placed on /job:ps and on the worker.
        target: name of the operation that runs a step; only what it needs counts.
        worker: device of the worker.

    Returns:
        The names of the reads in that order. On several servers each server keeps to its part.
    """
    by_name = {node.name: node for node in graph_def.node}
    nodes = _needed(by_name, target)
    index = {node.name: i for i, node in enumerate(nodes)}
    inputs = [[index[_operation(name)] for name in node.input] for node in nodes]
    # What uses a variable runs where that is, whatever it says.
    devices = [str(_variable(node, by_name).device) for node in nodes]
    on_server = ["/job:ps" in device for device in devices]
    # Whether a node, or anything before it, runs on the worker.
    after_worker: list[bool] = []
    received: set[int] = set()
    for sources, server in zip(inputs, on_server, strict=True):
        after_worker.append(not server or any(after_worker[source] for source in sources))
        received.update(() if server else sources)
    chain = tic(inputs, [i for i in sorted(received) if not after_worker[i]])
    shapes = {i: _variable(nodes[i], by_name).attr["shape"].shape for i in chain}
    smallest = min(chain, key=lambda i: prod(dimension.size for dimension in shapes[i].dim))
    begin = _round_trip(graph_def, nodes[smallest], worker)
    for device in {devices[i] for i in chain}:
        waits_for = begin
        for i in chain:
            if devices[i] == device:
                nodes[i].input.append(f"^{waits_for}")
                waits_for = nodes[i].name
    return [nodes[i].name for i in chain]


def _round_trip(graph_def: Any, read: Any, worker: str) -> str:
    """Add an operation on the worker that runs once it has received a parameter; return its name.

    It draws a random number, because TensorFlow leaves out what has neither state nor a reader.
    """
    again = graph_def.node.add()
    again.CopyFrom(read)
    again.name = "transfer_order/read"
    shape = graph_def.node.add(name="transfer_order/shape", op="Const", device=worker)
    shape.attr["dtype"].type = _INT32
    shape.attr["value"].tensor.dtype = _INT32
    shape.attr["value"].tensor.tensor_shape.dim.add(size=0)
    begin = graph_def.node.add(name="transfer_order/begin", op="RandomUniform", device=worker)
    begin.input.extend([shape.name, f"^{again.name}"])
    begin.attr["T"].type, begin.attr["dtype"].type = _INT32, _FLOAT
    return str(begin.name)


def _needed(by_name: Mapping[str, Any], target: str) -> list[Any]:
    """Return the nodes that a target needs, each after those it takes input from."""
    names: dict[str, None] = {}
    stack = [(target, False)]
    while stack:
        name, expanded = stack.pop()
        if expanded:
            names[name] = None
        elif name not in names:
            stack.append((name, True))
            stack += [(_operation(source), False) for source in by_name[name].input]
    return [by_name[name] for name in names]


def _variable(node: Any, by_name: Mapping[str, Any]) -> Any:
    """Return the variable that a node reads or writes; if it does neither, the node itself."""
    sources = (by_name[_operation(name)] for name in node.input)
    return next((source for source in sources if source.op in _VARIABLES), node)


def _operation(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]
