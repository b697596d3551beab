"""A synchronous-SGD job on a cluster: starts its replicas, talks to them, ends them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from profilers.clusters import Cluster
from profilers.nodes.programs import Job, Message
from profilers.nodes.tf_async_job import (
    START_TIMEOUT_S,
    STEP_TIMEOUT_S,
    StepTime,
    environment,
    step_times,
)
from profilers.nodes.tf_sync import ReplicaConfig
from profilers.nodes.torch_program import Facts, cluster_nodes
from warehouse.records import BadInput, Scenario

OPTIMISING_STEPS = 2
"""First steps of a group, in which TensorFlow optimises the graph."""

Progress = Callable[[str], None]


class Described(NamedTuple):
    """What an operation works on, as `networks.operation_graph.GraphOperation` has it."""

    name: str
    inputs: str
    outputs: str
    attributes: str
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True)
class Shapes:
    """The operations of a step whose shapes are known, and the parameters it trains."""

    operations: Sequence[Described]
    parameter_count: int


class SyncJob(Job):
    """The replicas of a scenario, ready to step alone and in groups; a context manager.

    They are held to their nodes' shares from `confine` on.

    Args:
        cluster: its workers are the scenario's.
        scenario: the one of most workers.
        world_sizes: how many of them will step together.
        progress: told what runs now.

    Raises:
        BadInput: another strategy or framework.
        ProbeFailed: a program died; its `detail` is what it wrote to stderr.
    """

    def __init__(
        self,
        cluster: Cluster,
        scenario: Scenario,
        world_sizes: Sequence[int],
        progress: Progress,
    ) -> None:
        check_supported(scenario)
        self.cluster, self._scenario, self._progress = cluster, scenario, progress
        self._world_sizes = sorted(world_sizes)
        self._nodes = cluster.of_role("worker")[: scenario.strategy.workers]
        super().__init__(cluster, scenario.label)

    def run(self, world_size: int, steps: int) -> list[list[StepTime]]:
        """Let the first replicas run untraced steps together; return those of each."""
        timeout_s = STEP_TIMEOUT_S * steps
        command = {"do": "run_together", "world_size": world_size, "steps": steps}
        replies = self._ask(world_size, "ran", timeout_s, **command)
        return [step_times(reply) for reply in replies]

    def trace(self, steps: int) -> tuple[list[StepTime], list[Path]]:
        """Run traced steps on replica 0 alone; return their times and RunMetadata files.

        The first file holds the graphs. Who has read the files may delete them.
        """
        with self._programs.filling(self._nodes[0].name) as (folder, there):
            command: dict[str, object] = {"do": "trace", "steps": steps, "folder": str(there)}
            (reply,) = self._ask(1, "traced", STEP_TIMEOUT_S * steps, **command)
        return step_times(reply), sorted(folder.iterdir())

    def shapes(self) -> Shapes:
        """Return what the operations of a step alone work on."""
        (reply,) = self._ask(1, "shapes", START_TIMEOUT_S, do="shapes")
        operations = cast(Sequence[Sequence[Any]], reply["operations"])
        count = cast(int, reply["parameter_count"])
        return Shapes([Described(*one) for one in operations], count)

    def meet(self, world_size: int) -> None:
        """Give the first replicas the same variables."""
        if world_size > 1:
            self._ask(world_size, "met", STEP_TIMEOUT_S, do="meet", world_size=world_size)

    def digests(self, world_size: int) -> list[float]:
        """Return a number of each of the first replicas that is equal if their variables are."""
        replies = self._ask(world_size, "digest", STEP_TIMEOUT_S, do="digest")
        return [cast(float, reply["value"]) for reply in replies]

    def cpu_s(self, world_size: int) -> float:
        """Return the seconds of processor time that the first replicas have had so far."""
        replies = self._ask(world_size, "cpu", STEP_TIMEOUT_S, do="tell_cpu")
        return sum(cast(float, reply["seconds"]) for reply in replies)

    def cluster_node(self, world_size: int) -> pl.DataFrame:
        """Return table cluster_node of the nodes of the first replicas."""
        return cluster_nodes({node: self._facts[node] for node in self._nodes[:world_size]})

    def confine(self) -> None:
        """Hold all replicas to their nodes' shares and memory from now on."""
        for node in self._nodes:
            self._programs.confine(node.name)

    def _start(self) -> None:
        load = self._scenario.workload
        self._progress(f"start {load.dnn}: {len(self._nodes)} replica(s) load TensorFlow")
        workers = [f"{node.address}:{self.cluster.free_port(node)}" for node in self._nodes]
        for node in self._nodes:
            config = ReplicaConfig(
                workers=workers,
                world_sizes=list(self._world_sizes),
                index=node.index,
                interface=self.cluster.interface,
                dnn=load.dnn,
                image_size=load.image_size,
                batch_size=load.batch_size,
                threads=node.group.threads,
                inter_op_threads=node.group.inter_op_threads,
            )
            module = "profilers.nodes.tf_sync"
            self._programs.start(node.name, node, module, config.to_json(), environment(node))
        ready = self._programs.expect([one.name for one in self._nodes], "ready", START_TIMEOUT_S)
        self._facts = {node: Facts.of(ready[node.name]) for node in self._nodes}
        self._ask(len(self._nodes), "initialized", START_TIMEOUT_S, do="initialize")
        for world_size in self._world_sizes:
            self._progress(f"start {load.dnn}: first steps of {world_size} replica(s)")
            self.run(world_size, OPTIMISING_STEPS)
            self.meet(world_size)

    def _ask(self, count: int, answer: str, timeout_s: float, **command: object) -> list[Message]:
        names = [node.name for node in self._nodes[:count]]
        replies = self._programs.ask(names, answer, timeout_s, **command)
        return [replies[name] for name in names]


def check_supported(scenario: Scenario) -> None:
    """Refuse what is not TensorFlow without servers, one device per node.

    Raises:
        BadInput: naming what is wrong.
    """
    strategy, framework = scenario.strategy, scenario.workload.framework
    if (strategy.kind, framework, strategy.devices_per_node) != ("all_reduce", "tensorflow", 1):
        raise BadInput(
            f"{scenario.label}: expected all_reduce with framework tensorflow and one device per "
            f"node, found {strategy.kind} with {framework} and {strategy.devices_per_node}"
        )
