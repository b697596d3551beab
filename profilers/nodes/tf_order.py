"""Making TensorFlow's servers send parameters in an order.

A server sends a parameter once its read has run and the worker has asked for it. Control
dependencies chain the reads on the server; the first of them waits until a small parameter has
travelled to the worker, by when the worker has asked for most of the others. What is kept of the
order shows in captured packets (lab/async_sgd.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from networks.variables import EnforcedOrder, transfer_order

_VARIABLES = ("VarHandleOp", "VariableV2")
_FLOAT, _INT32 = 1, 3
"""TensorFlow's numbers of these types."""


@dataclass(frozen=True)
class _Reads:
    """A training step's nodes, each after its inputs, and which of them the servers send."""

    nodes: Sequence[Any]
    devices: Sequence[str]
    inputs: Sequence[Sequence[int]]
    sent: Sequence[int]


def enforce(graph_def: Any, target: str, worker: str, order: EnforcedOrder) -> list[str]:
    """Chain the servers' reads of parameters in a graph that trains, in place.

    Args:
        graph_def: a `tf.compat.v1.GraphDef` whose nodes are placed on /job:ps and on the worker.
        target: name of the operation that runs a step; only what it needs counts.
        worker: device of the worker.
        order: the order to enforce.

    Returns:
        The names of the reads in that order. On several servers each server keeps to its part.
    """
    by_name = {node.name: node for node in graph_def.node}
    reads = _reads(by_name, target)
    chain = transfer_order(order, reads.inputs, reads.sent)
    smallest = min(chain, key=lambda i: _elements(reads.nodes[i], by_name))
    begin = _round_trip(graph_def, reads.nodes[smallest], worker)
    for device in {reads.devices[i] for i in chain}:
        waits_for = begin
        for i in chain:
            if reads.devices[i] == device:
                reads.nodes[i].input.append(f"^{waits_for}")
                waits_for = reads.nodes[i].name
    return [reads.nodes[i].name for i in chain]


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


def _reads(by_name: Mapping[str, Any], target: str) -> _Reads:
    nodes = _needed(by_name, target)
    index = {node.name: i for i, node in enumerate(nodes)}
    inputs = [[index[_operation(name)] for name in node.input] for node in nodes]
    devices = [_device(node, by_name) for node in nodes]
    on_server = ["/job:ps" in device for device in devices]
    received = {
        source for i, sources in enumerate(inputs) if not on_server[i] for source in sources
    }
    after_worker = _after_worker(inputs, on_server)
    sent = [i for i in sorted(received) if not after_worker[i]]
    return _Reads(nodes, devices, inputs, sent)


def _needed(by_name: Mapping[str, Any], target: str) -> list[Any]:
    """Return the nodes that a target needs, each after those it takes input from."""
    found: dict[str, None] = {}
    stack = [(target, False)]
    while stack:
        name, expanded = stack.pop()
        if expanded:
            found[name] = None
        elif name not in found:
            stack.append((name, True))
            stack += [(_operation(one), False) for one in by_name[name].input]
    return [by_name[name] for name in found]


def _variable(node: Any, by_name: Mapping[str, Any]) -> Any:
    """Return the variable that a node reads or writes, None if it does neither."""
    sources = (by_name[_operation(name)] for name in node.input)
    return next((source for source in sources if source.op in _VARIABLES), None)


def _device(node: Any, by_name: Mapping[str, Any]) -> str:
    """Return where a node runs; what uses a variable runs where that is, whatever it says."""
    variable = _variable(node, by_name)
    return str(node.device if variable is None else variable.device)


def _elements(node: Any, by_name: Mapping[str, Any]) -> int:
    variable = _variable(node, by_name)
    assert variable is not None
    return prod(dimension.size for dimension in variable.attr["shape"].shape.dim)


def _after_worker(inputs: Sequence[Sequence[int]], on_server: Sequence[bool]) -> list[bool]:
    """Tell of every node whether it, or anything before it, runs on a worker."""
    after: list[bool] = []
    for sources, server in zip(inputs, on_server, strict=True):
        after.append(not server or any(after[source] for source in sources))
    return after


def _operation(name: str) -> str:
    return name.removeprefix("^").partition(":")[0]
