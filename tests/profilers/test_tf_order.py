"""Reads chained in a graph of two layers; no session runs it."""

from typing import Any

import pytest

from profilers.nodes.tf_order import enforce

WORKER = "/job:worker/task:0"


@pytest.fixture
def two_layers() -> tuple[Any, str]:
    """Return the graph that trains two layers, weights on two servers, and its step."""
    import tensorflow.compat.v1 as tf

    graph = tf.Graph()
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device=WORKER)
    with graph.as_default(), tf.device(setter):
        signal = tf.random_uniform((1, 4))
        for layer in ("first", "second"):
            with tf.variable_scope(layer):
                weights = tf.get_variable("weights", (4, 4), use_resource=False)
                biases = tf.get_variable("biases", (4,), use_resource=False)
                signal = tf.matmul(signal, weights) + biases
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        step = optimizer.minimize(tf.nn.l2_loss(signal))
    return graph.as_graph_def(), step.name


def test_reads_are_chained_on_each_server(two_layers: tuple[Any, str]) -> None:
    graph_def, step = two_layers
    reads = enforce(graph_def, step, WORKER)
    layers = ("first", "second")
    both = {f"{layer}/{part}/read" for layer in layers for part in ("weights", "biases")}
    assert set(reads) == both and len(reads) == 4
    assert [name.partition("/")[0] for name in reads] == ["first"] * 2 + ["second"] * 2
    waits = {node.name: [name for name in node.input if name[0] == "^"] for node in graph_def.node}
    for kind in ("weights", "biases"):  # replica_device_setter puts them on different servers
        first, second = [name for name in reads if kind in name]
        assert waits[first] == ["^transfer_order/begin"]
        assert waits[second] == [f"^{first}"]


def test_the_first_read_waits_for_a_small_parameter(two_layers: tuple[Any, str]) -> None:
    graph_def, step = two_layers
    enforce(graph_def, step, WORKER)
    nodes = {node.name: node for node in graph_def.node}
    assert "^transfer_order/read" in nodes["transfer_order/begin"].input
    assert nodes["transfer_order/begin"].device == WORKER
    assert nodes["transfer_order/read"].input[0].endswith("biases")


def test_the_graph_still_trains(two_layers: tuple[Any, str]) -> None:
    import tensorflow.compat.v1 as tf

    graph_def, step = two_layers
    enforce(graph_def, step, WORKER)
    for node in graph_def.node:
        node.device = ""
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as session:
        tf.import_graph_def(graph_def, name="")
        names = [node.name for node in graph_def.node]
        session.run([name for name in names if name.endswith("/Assign")])
        before = session.run("first/weights:0")
        session.run(step)
        assert (session.run("first/weights:0") != before).any()
