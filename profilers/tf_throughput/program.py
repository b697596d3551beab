"""The program on a node of an asynchronous-SGD job: a parameter server or a worker.

Started as `python -m profilers.tf_throughput.program CONFIG_JSON`; see
`profilers.nodes.tf_stepper` for the commands that it obeys. A server obeys `tell_cpu` only.
"""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from networks.own_step import imported_slopes
from networks.variables import EnforcedOrder, Greedy
from profilers.nodes import tf_order
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
    initializer, step = (graph.get_operation_by_name(one.name) for one in (initializer, step))
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
    tf_order.enforce(graph_def, step, worker, order)
    with tf.Graph().as_default() as ordered:
        tf.import_graph_def(graph_def, name="")
    return ordered


if __name__ == "__main__":
    main()
