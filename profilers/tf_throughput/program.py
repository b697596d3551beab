"""The program on a node of an asynchronous-SGD job: a parameter server or a worker.

Commands: those of `profilers.nodes.tf_stepper`; a server obeys `cpu` alone.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from networks.own_step import imported_slopes
from networks.variables import Greedy
from profilers.nodes.program import Say, serve
from profilers.nodes.tf_order import with_order
from profilers.nodes.tf_stepper import (
    LEARNING_RATE,
    FreeStepper,
    session_config,
    start_server,
    tell_cpu,
)


def commands(config: dict[str, Any], say: Say) -> Mapping[str, Callable[..., None]]:
    """Start a node's part of the job; return what it obeys.

    Args:
        config: `cluster` maps role to host:port of each task, `role` and `index` say which this is;
            `dnn`, `image_size`, `batch_size`, `order`, `placement`, threads; `source`: of a user's
            own model, the file of its traced step. Nodes see the same files.
        say: answers the controller.
    """
    threads = session_config(config["threads"], config["inter_op_threads"])
    if config["role"] == "worker":
        return _worker(config, threads, say).commands()
    server = start_server(config["cluster"], config["role"], config["index"], threads)
    return {"cpu": lambda _server=server: tell_cpu(say)}


def _worker(config: dict[str, Any], threads: Any, say: Say) -> FreeStepper:
    """Build one worker's graph and connect it to the servers."""
    import tensorflow.compat.v1 as tf

    import networks

    tf.disable_v2_behavior()
    cluster, dnn = config["cluster"], config["dnn"]
    server = start_server(cluster, config["role"], config["index"], threads)
    device = f"/job:worker/task:{config['index']}"
    servers = len(cluster["ps"])
    placement = tf.train.replica_device_setter(
        ps_tasks=servers,
        worker_device=device,
        ps_strategy=None if config["placement"] == "round_robin" else _greedy(servers),
    )
    with tf.device(placement):
        optimizer = tf.train.GradientDescentOptimizer(LEARNING_RATE)
        if config["source"]:
            minimize = optimizer.apply_gradients(imported_slopes(Path(config["source"]), dnn))
        else:
            loss = networks.training_loss(dnn, config["batch_size"], config["image_size"])
            minimize = optimizer.minimize(loss)
        step = tf.group(minimize, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
        initializer = tf.global_variables_initializer()
    graph = tf.get_default_graph()
    if config["order"] == "tic":
        graph = with_order(graph, step.name, device)
    session = tf.Session(server.target, graph, config=threads)
    initializer, step = (
        graph.get_operation_by_name(operation.name) for operation in (initializer, step)
    )
    return FreeStepper(session, initializer, step, say)


def _greedy(servers: int) -> Callable[[Any], int]:
    import tensorflow.compat.v1 as tf

    rule = Greedy(servers)

    def server_of(variable: Any) -> int:
        elements = tf.TensorShape(variable.get_attr("shape")).num_elements()
        return rule.put(elements * variable.get_attr("dtype").size)

    return server_of


if __name__ == "__main__":
    serve(commands)
