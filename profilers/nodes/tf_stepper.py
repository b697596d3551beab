"""Training steps of one TensorFlow session; times are microseconds of UTC."""

import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from profilers import clock
from profilers.nodes.program import Say

LEARNING_RATE = 0.01


class Stepper:
    """A session, and its training step; `initializer` and `step` are operations of its graph."""

    def __init__(self, session: Any, initializer: Any, step: Any, say: Say) -> None:
        self._session, self._initializer, self._train_step = session, initializer, step
        self._say = say
        self._run_step = session.make_callable(step)

    def initialize(self) -> None:
        """Create the variables."""
        self._session.run(self._initializer)
        self._say("initialized")

    def run(self, steps: int) -> None:
        """Run steps and report their start and end times."""
        self._say("ran", times=[time_step(self._run_step) for _ in range(steps)])

    def trace(self, steps: int, folder: str) -> None:
        """Run steps under the full tracer; write each one's RunMetadata to `folder`."""
        import tensorflow.compat.v1 as tf

        times = []
        for step in range(steps):
            metadata = tf.RunMetadata()
            options = tf.RunOptions(
                trace_level=tf.RunOptions.FULL_TRACE, output_partition_graphs=step == 0
            )
            traced = partial(
                self._session.run, self._train_step, options=options, run_metadata=metadata
            )
            times.append(time_step(traced))
            path = Path(folder) / f"run_metadata_{step:05d}.pb"
            path.write_bytes(metadata.SerializeToString())
        self._say("traced", times=times)

    def commands(self) -> dict[str, Callable[..., None]]:
        """Return what it obeys, by name."""
        cpu = partial(tell_cpu, self._say)
        return {"initialize": self.initialize, "run": self.run, "trace": self.trace, "cpu": cpu}


class FreeStepper(Stepper):
    """A worker that need not wait for others: it steps until it is told to halt."""

    def __init__(self, session: Any, initializer: Any, step: Any, say: Say) -> None:
        super().__init__(session, initializer, step, say)
        self._halted = threading.Event()

    def commands(self) -> dict[str, Callable[..., None]]:
        """Return what it obeys, by name."""
        return {**super().commands(), "train": self.train, "halt": self.halt}

    def train(self, rest_s: float) -> None:
        """Step until `halt`, reporting each step as it ends; rest up to so long between two."""
        self._halted.clear()
        threading.Thread(target=self._train, args=[rest_s], daemon=True).start()

    def halt(self) -> None:
        """End `train` after the step under way."""
        self._halted.set()

    def _train(self, rest_s: float) -> None:
        while not self._halted.is_set():
            start_us, end_us = time_step(self._run_step)
            self._say("step", start_us=start_us, end_us=end_us)
            time.sleep(random.uniform(0, rest_s))
        self._say("halted")


def tell_cpu(say: Say) -> None:
    """Report the processor time this program has had."""
    say("cpu", seconds=time.process_time())


def time_step(step: Callable[[], Any]) -> tuple[int, int]:
    """Run a step; return its start and end."""
    start_us = clock.now_us()
    step()
    return start_us, clock.now_us()


def session_config(threads: int, inter_op_threads: int) -> Any:
    """Return the ConfigProto of a node with so many threads."""
    import tensorflow.compat.v1 as tf

    return tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=inter_op_threads
    )


def start_server(cluster: Mapping[str, Sequence[str]], role: str, index: int, config: Any) -> Any:
    """Start this task's part of the job; `cluster` maps role to host:port of each task."""
    import tensorflow.compat.v1 as tf

    return tf.train.Server(
        tf.train.ClusterSpec(cluster), job_name=role, task_index=index, config=config
    )
