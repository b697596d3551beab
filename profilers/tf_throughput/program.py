"""The program on a node of an asynchronous-SGD job: a parameter server or a worker.

Started as `python -m profilers.tf_throughput.program CONFIG_JSON`; see
`profilers.nodes.tf_stepper` for the commands that it obeys. A server obeys `tell_cpu` only.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Any

from networks.own_step import imported_slopes
from networks.variables import EnforcedOrder, Greedy, transfer_order
from profilers.nodes.tf_stepper import (
    LEARNING_RATE,
    FreeStepper,
    Say,
    answers,
    obey,
    session_config,
    start_server,
)
from warehouse.records import Order, Placement


@dataclass(frozen=True)
class NodeConfig:
    """What a node of the job must know; `cluster` maps role to host:port of each task.

    `source`: of a user's own model, the file of its traced step; nodes see the same files.
    """

    cluster: dict[str, list[str]]
    role: str
    index: int
    dnn: str
    image_size: int
    batch_size: int
    threads: int
    inter_op_threads: int
    order: Order
    placement: Placement
    source: str = ""

    def to_json(self) -> str:
        """Encode for the command line."""
        return json.dumps(asdict(self))


def worker(config: NodeConfig, say: Say) -> FreeStepper:
    """Build one worker's graph and connect it to the servers."""
    import tensorflow.compat.v1 as tf

    import networks

    tf.disable_v2_behavior()
    threads = session_config(config.threads, config.inter_op_threads)
    server = start_server(config.cluster, config.role, config.index, threads)
    device = f"/job:worker/task:{config.index}"
    placement = tf.train.replica_device_setter(
        ps_tasks=len(config.cluster["ps"]),
        worker_device=device,
        ps_strategy=None if config.placement == "round_robin" else _greedy(config),
    )
    with tf.device(placement):
        optimizer = tf.train.GradientDescentOptimizer(LEARNING_RATE)
        if config.source:
            slopes = imported_slopes(Path(config.source), config.dnn)
            minimize = optimizer.apply_gradients(slopes)
        else:
            loss = networks.training_loss(config.dnn, config.batch_size, config.image_size)
            minimize = optimizer.minimize(loss)
        step = tf.group(minimize, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        initializer = tf.global_variables_initializer()
    graph = tf.get_default_graph()
    if config.order != "framework":
        graph = _with_order(graph, step.name, device, config.order)
    session = tf.Session(server.target, graph, config=threads)
    initializer, step = (
        graph.get_operation_by_name(operation.name) for operation in (initializer, step)
    )
    return FreeStepper(session, initializer, step, say)


class Server:
    """A parameter server, which works for as long as it is there."""

    def __init__(self, config: NodeConfig, say: Say) -> None:
        threads = session_config(config.threads, config.inter_op_threads)
        self._server = start_server(config.cluster, config.role, config.index, threads)
        self._say = say

    def tell_cpu(self) -> None:
        """Report the processor time this program has had."""
        self._say(event="cpu", seconds=time.process_time())


def main() -> None:
    """Run this node until its controller closes stdin."""
    config = NodeConfig(**json.loads(sys.argv[1]))
    say = answers()
    program = Server(config, say) if config.role == "ps" else worker(config, say)
    say(event="ready")
    obey(program)


def _greedy(config: NodeConfig) -> Callable[[Any], int]:
    import tensorflow.compat.v1 as tf

    rule = Greedy(len(config.cluster["ps"]))

    def server_of(variable: Any) -> int:
        elements = tf.TensorShape(variable.get_attr("shape")).num_elements()
        return rule.put(elements * variable.get_attr("dtype").size)

    return server_of


def _with_order(graph: Any, step: str, worker: str, order: EnforcedOrder) -> Any:
    import tensorflow.compat.v1 as tf

    graph_def = graph.as_graph_def()
    enforce(graph_def, step, worker, order)
    with tf.Graph().as_default() as ordered:
        tf.import_graph_def(graph_def, name="")
    return ordered


# Making servers send parameters in an order: a server sends one once its read has run and the
# worker has asked for it. Control dependencies chain the reads on the server; the first of them
# waits until a small parameter has travelled to the worker, by when the worker has asked for most
# of the others. What is kept of the order shows in captured packets (lab/async_sgd.md).


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


if __name__ == "__main__":
    main()
