"""The program on a node of an asynchronous-SGD job: a parameter server or a worker.

Started as `python -m profilers.tf_node CONFIG_JSON`. A worker obeys JSON lines on stdin and
answers with JSON lines on stdout; end of input (its controller died) ends it. Commands:
`initialize` (create the variables), `run` N steps, `trace` N steps into a folder, `train` until
`halt`, `tell_cpu` (a server obeys this one too). Times are microseconds of UTC.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from networks.placement import Greedy
from networks.transfer_order import EnforcedOrder
from profilers import tf_order
from warehouse.records import Order, Placement

_LEARNING_RATE = 0.01


@dataclass(frozen=True)
class NodeConfig:
    """What a node of the job must know; `cluster` maps role to host:port of each task."""

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

    def to_json(self) -> str:
        """Encode for the command line."""
        return json.dumps(asdict(self))


class Worker:
    """One worker's graph and session, and the commands it obeys."""

    def __init__(self, config: NodeConfig, say: Callable[..., None]) -> None:
        import tensorflow.compat.v1 as tf

        import networks

        tf.disable_v2_behavior()
        self._tf, self._say = tf, say
        session_config = _session_config(config)
        server = _start_server(config, session_config)
        self._halted = threading.Event()
        device = f"/job:worker/task:{config.index}"
        placement = tf.train.replica_device_setter(
            ps_tasks=len(config.cluster["ps"]),
            worker_device=device,
            ps_strategy=None if config.placement == "round_robin" else _greedy(config),
        )
        with tf.device(placement):
            loss = networks.training_loss(config.dnn, config.batch_size, config.image_size)
            minimize = tf.train.GradientDescentOptimizer(_LEARNING_RATE).minimize(loss)
            step = tf.group(minimize, *tf.get_collection(tf.GraphKeys.UPDATE_OPS))
            initializer = tf.global_variables_initializer()
        graph = tf.get_default_graph()
        if config.order != "framework":
            graph = _with_order(graph, step.name, device, config.order)
        self._train_step = graph.get_operation_by_name(step.name)
        self._initializer = graph.get_operation_by_name(initializer.name)
        self._session = tf.Session(server.target, graph, config=session_config)
        self._run_step = self._session.make_callable(self._train_step)

    def initialize(self) -> None:
        """Create the variables on the servers."""
        self._session.run(self._initializer)
        self._say(event="initialized")

    def run(self, steps: int) -> None:
        """Run steps and report their start and end times."""
        self._say(event="ran", times=[self._timed(self._run_step) for _ in range(steps)])

    def trace(self, steps: int, folder: str) -> None:
        """Run steps under the full tracer; write each one's RunMetadata to `folder`."""
        times = []
        for step in range(steps):
            metadata = self._tf.RunMetadata()
            options = self._tf.RunOptions(
                trace_level=self._tf.RunOptions.FULL_TRACE, output_partition_graphs=step == 0
            )
            traced = partial(
                self._session.run, self._train_step, options=options, run_metadata=metadata
            )
            times.append(self._timed(traced))
            path = Path(folder) / f"run_metadata_{step:05d}.pb"
            path.write_bytes(metadata.SerializeToString())
        self._say(event="traced", times=times)

    def tell_cpu(self) -> None:
        """Report the processor time this program has had."""
        self._say(event="cpu", seconds=time.process_time())

    def train(self) -> None:
        """Step until `halt`, reporting each step as it ends."""
        self._halted.clear()
        threading.Thread(target=self._train, daemon=True).start()

    def halt(self) -> None:
        """End `train` after the step under way."""
        self._halted.set()

    def _train(self) -> None:
        while not self._halted.is_set():
            start_us, end_us = self._timed(self._run_step)
            self._say(event="step", start_us=start_us, end_us=end_us)
        self._say(event="halted")

    def _timed(self, step: Callable[[], Any]) -> tuple[int, int]:
        start = time.time_ns()
        step()
        return start // 1000, time.time_ns() // 1000


def main() -> None:
    """Run this node until its controller closes stdin."""
    config = NodeConfig(**json.loads(sys.argv[1]))
    # TensorFlow's own prints must not mix with the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    if config.role == "ps":
        server = _start_server(config, _session_config(config))
        _say_to(answers, event="ready")
        for line in sys.stdin:
            assert json.loads(line)["do"] == "tell_cpu"
            _say_to(answers, event="cpu", seconds=time.process_time())
        del server
    else:
        worker = Worker(config, lambda **message: _say_to(answers, **message))
        _say_to(answers, event="ready")
        for line in sys.stdin:
            command = json.loads(line)
            getattr(worker, command.pop("do"))(**command)
    # Sessions that wait for a dead peer would never close.
    os._exit(0)


def _session_config(config: NodeConfig) -> Any:
    import tensorflow.compat.v1 as tf

    return tf.ConfigProto(
        intra_op_parallelism_threads=config.threads,
        inter_op_parallelism_threads=config.inter_op_threads,
    )


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


def _start_server(config: NodeConfig, session_config: Any) -> Any:
    import tensorflow.compat.v1 as tf

    return tf.train.Server(
        tf.train.ClusterSpec(config.cluster),
        job_name=config.role,
        task_index=config.index,
        config=session_config,
    )


def _say_to(answers: TextIO, **message: object) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    main()
