"""TensorFlow jobs, asynchronous and synchronous: their programs started, asked, ended."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import polars as pl

from networks.extraction import step_file
from profilers.clusters import Cluster, Node
from profilers.nodes.programs import (
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    Message,
    Programs,
    cluster_nodes,
)
from profilers.probe import Say
from warehouse.records import Role, Scenario

FIRST_STEPS = 3
"""In these TensorFlow optimises the graph; they are run before the CPU share applies."""
ROLES: tuple[Role, ...] = ("worker", "server")


class StepTime(NamedTuple):
    """Start and end of one training step at its worker, in microseconds of UTC."""

    start_us: int
    end_us: int

    @property
    def seconds(self) -> float:
        """How long it took."""
        return (self.end_us - self.start_us) / 1e6


def mean_s(steps: Sequence[StepTime]) -> float:
    """Return the mean seconds of steps."""
    return fmean(step.seconds for step in steps)


class TensorFlowJob(Programs):
    """The programs of a scenario on nodes of a cluster; a context manager.

    Raises:
        ProbeFailed: a program died; its `detail` is what it wrote to stderr.
    """

    module: str

    def __init__(self, cluster: Cluster, scenario: Scenario, nodes: Sequence[Node], say: Say):
        super().__init__(cluster, scenario.label)
        self.scenario, self.nodes, self._say = scenario, nodes, say

    def _start_on_nodes(self, config: Callable[[Node], Mapping[str, object]]) -> None:
        """Start a program on each node, and wait until all are ready."""
        load = self.scenario.workload
        self._say(f"start {load.dnn}: {len(self.nodes)} node(s) load TensorFlow")
        sizes = {"image_size": load.image_size, "batch_size": load.batch_size}
        for node in self.nodes:
            self.start(node.name, node, self.module, dnn=load.dnn, **sizes, **config(node))
        self.ready = self.expect([node.name for node in self.nodes], "ready", START_TIMEOUT_S)

    def confine(self, *names: str) -> None:
        """Hold programs, or all, to their nodes' shares and memory from now on."""
        for name in names or self.ready:
            super().confine(name)

    def _address(self, node: Node) -> str:
        return f"{node.address}:{self.cluster.free_port(node)}"

    def _answers(
        self, nodes: Sequence[Node], event: str, timeout_s: float, **command: object
    ) -> list[Message]:
        return self.ask([node.name for node in nodes], event, timeout_s, **command)

    def trace(self, node: Node, steps: int) -> tuple[list[StepTime], list[Path]]:
        """Run traced steps on one node alone; return their times and RunMetadata files.

        The first file holds the graphs. Files live until the job ends, or their reader deletes
        them.
        """
        with self.filling(node.name) as (folder, node_folder):
            command = {"do": "trace", "steps": steps, "folder": str(node_folder)}
            (reply,) = self._answers([node], "traced", STEP_TIMEOUT_S * steps, **command)
        return _step_times(reply), sorted(folder.iterdir())

    def cpu_s(self, nodes: Sequence[Node]) -> float:
        """Return the seconds of processor time that the programs of nodes have had so far."""
        answers = self._answers(nodes, "cpu", STEP_TIMEOUT_S, do="cpu")
        return sum(float(answer["seconds"]) for answer in answers)


class AsyncJob(TensorFlowJob):
    """Parameter servers and workers of a scenario, ready to step, held to their nodes' shares."""

    module = "profilers.tf_throughput.program"

    def __init__(self, cluster: Cluster, scenario: Scenario, say: Say) -> None:
        self.workers = cluster.of_role("worker")
        super().__init__(cluster, scenario, (*cluster.of_role("server"), *self.workers), say)

    def run(self, worker: Node, steps: int) -> list[StepTime]:
        """Run untraced steps on one worker while the others rest."""
        command = {"do": "run", "steps": steps}
        (reply,) = self._answers([worker], "ran", STEP_TIMEOUT_S * steps, **command)
        return _step_times(reply)

    def cpu_s_by_role(self) -> dict[Role, float]:
        """Return the seconds of processor time that the programs of each role have had so far."""
        return {role: self.cpu_s(self.cluster.of_role(role)) for role in ROLES}

    def train(
        self,
        workers: Sequence[Node],
        until: Callable[[int, StepTime], bool],
        *,
        rest_s: float = 0.0,
    ) -> None:
        """Let workers step together, from one start, until `until(place, step)` is true.

        The place is the worker's among `workers`. Each rests between two steps, for a time drawn
        from 0 to `rest_s`.
        """
        place = {worker.name: index for index, worker in enumerate(workers)}
        for name in place:
            self.tell(name, do="train", rest_s=rest_s)
        halted: set[str] = set()
        done = False
        while len(halted) < len(workers):
            name, message = self.receive(STEP_TIMEOUT_S)
            if message["event"] == "halted":
                halted.add(name)
            elif until(place[name], StepTime(message["start_us"], message["end_us"])) and not done:
                done = True
                for worker in place:
                    self.tell(worker, do="halt")

    def _start_all(self) -> None:
        strategy, load = self.scenario.strategy, self.scenario.workload
        servers = self.cluster.of_role("server")
        peers = {
            role: [self._address(node) for node in nodes]
            for role, nodes in (("ps", servers), ("worker", self.workers))
        }
        self._start_on_nodes(
            lambda node: {
                "cluster": peers,
                "role": "ps" if node.role == "server" else "worker",
                "index": node.index,
                "order": strategy.order,
                "placement": strategy.placement,
                "source": step_file(load.dnn, load.batch_size),
            }
        )
        self._answers(self.workers[:1], "initialized", START_TIMEOUT_S, do="initialize")
        self._answers(self.workers, "ran", START_TIMEOUT_S, do="run", steps=FIRST_STEPS)
        self.confine()


_SHAPES = {
    **dict.fromkeys(("name", "inputs", "outputs", "attributes"), pl.String),
    **dict.fromkeys(("input_bytes", "output_bytes"), pl.Int64),
}


class SyncJob(TensorFlowJob):
    """The replicas of a scenario, ready to step alone and in groups; a context manager.

    They are held to their nodes' shares from `confine` on. `world_sizes` say how many of them will
    step together.
    """

    module = "profilers.tf_sync.program"

    def __init__(
        self, cluster: Cluster, scenario: Scenario, world_sizes: Iterable[int], say: Say
    ) -> None:
        self._world_sizes = sorted(set(world_sizes))
        nodes = cluster.of_role("worker")[: scenario.strategy.workers]
        super().__init__(cluster, scenario, nodes, say)

    def run(self, world_size: int, steps: int) -> list[list[StepTime]]:
        """Let the first replicas run untraced steps together; return those of each."""
        command = {"do": "run_together", "world_size": world_size, "steps": steps}
        replies = self._answers(self.nodes[:world_size], "ran", STEP_TIMEOUT_S * steps, **command)
        return [_step_times(reply) for reply in replies]

    def shapes(self) -> tuple[pl.DataFrame, int]:
        """Return what the operations of a step alone work on."""
        (reply,) = self._answers(self.nodes[:1], "shapes", START_TIMEOUT_S, do="shapes")
        return pl.DataFrame(reply["operations"], _SHAPES, orient="row"), reply["parameter_count"]

    def meet(self, world_size: int) -> None:
        """Give the first replicas the same variables."""
        if world_size > 1:
            command = {"do": "meet", "world_size": world_size}
            self._answers(self.nodes[:world_size], "met", STEP_TIMEOUT_S, **command)

    def cluster_node(self, world_size: int) -> pl.DataFrame:
        """Return table cluster_node of the nodes of the first replicas."""
        return cluster_nodes({node: self.ready[node.name] for node in self.nodes[:world_size]})

    def _start_all(self) -> None:
        workers = [self._address(node) for node in self.nodes]
        world_sizes = self._world_sizes
        self._start_on_nodes(
            lambda node: {"workers": workers, "world_sizes": world_sizes, "index": node.index}
        )
        self._answers(self.nodes, "initialized", START_TIMEOUT_S, do="initialize")
        for world_size in world_sizes:
            self._say(f"start {self.scenario.workload.dnn}: first steps of {world_size} replica(s)")
            self.run(world_size, FIRST_STEPS)
            self.meet(world_size)


def _step_times(message: Message) -> list[StepTime]:
    """Read the times that a program reported."""
    times: Sequence[Any] = message["times"]
    return [StepTime(*pair) for pair in times]
