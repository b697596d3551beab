"""TensorFlow jobs, asynchronous and synchronous: their programs started, asked, ended."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import polars as pl

from networks.extraction import step_file
from profilers.clusters import Cluster, Node
from profilers.nodes.programs import BaseJob, Message
from profilers.nodes.torch_program import Facts, cluster_nodes
from profilers.tf_sync.program import ReplicaConfig
from profilers.tf_throughput.program import NodeConfig
from warehouse.records import BadInput, Role, Scenario

UNCONFINED_STEPS = 3
"""First steps, in which TensorFlow optimises the graph; run before the CPU share applies."""
START_TIMEOUT_S = 300.0
STEP_TIMEOUT_S = 300.0
ROLES: tuple[Role, ...] = ("worker", "server")

Progress = Callable[[str], None]


@dataclass(frozen=True)
class StepTime:
    """Start and end of one training step at its worker, in microseconds of UTC."""

    start_us: int
    end_us: int


class AsyncJob(BaseJob):
    """Parameter servers and workers of a scenario, ready to step; a context manager.

    Raises:
        BadInput: the scenario asks for what stock TensorFlow cannot be told.
        ProbeFailed: a program died; its `detail` is what it wrote to stderr.
    """

    def __init__(self, cluster: Cluster, scenario: Scenario, progress: Progress) -> None:
        check_async_supported(scenario)
        self.cluster, self.scenario, self._progress = cluster, scenario, progress
        self.workers = cluster.of_role("worker")
        super().__init__(cluster, scenario.label)

    def run(self, worker: Node, steps: int) -> list[StepTime]:
        """Run untraced steps on one worker while the others rest."""
        return step_times(self._ask(worker, "ran", STEP_TIMEOUT_S * steps, do="run", steps=steps))

    def trace(self, worker: Node, steps: int) -> tuple[list[StepTime], list[Path]]:
        """Run traced steps on one worker; return their times and RunMetadata files.

        The first file holds the graphs. The files live until the job ends.
        """
        with self._programs.filling(worker.name) as (folder, node_folder):
            command: dict[str, object] = {"do": "trace", "steps": steps, "folder": str(node_folder)}
            reply = self._ask(worker, "traced", STEP_TIMEOUT_S * steps, **command)
        return step_times(reply), sorted(folder.iterdir())

    def cpu_s(self) -> dict[Role, float]:
        """Return the seconds of processor time that the programs of each role have had so far."""
        return {role: self._cpu_s(role) for role in ROLES}

    def _cpu_s(self, role: Role) -> float:
        names = {node.name for node in self.cluster.of_role(role)}
        answers = self._programs.ask(names, "cpu", STEP_TIMEOUT_S, do="tell_cpu")
        return sum(cast(float, answer["seconds"]) for answer in answers.values())

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
        for worker in workers:
            self._programs.tell(worker.name, do="train", rest_s=rest_s)
        place = {worker.name: index for index, worker in enumerate(workers)}
        halted: set[str] = set()
        done = False
        while len(halted) < len(workers):
            name, message = self._programs.receive(STEP_TIMEOUT_S)
            if message["event"] == "halted":
                halted.add(name)
            elif until(place[name], _step_time(message)) and not done:
                done = True
                for worker in workers:
                    self._programs.tell(worker.name, do="halt")

    def _start(self) -> None:
        nodes = {"ps": self.cluster.of_role("server"), "worker": self.workers}
        peers = {
            role: [f"{node.address}:{self.cluster.free_port(node)}" for node in members]
            for role, members in nodes.items()
        }
        load = self.scenario.workload
        self._progress(f"start {load.dnn}: {len(self.workers)} worker(s) load TensorFlow")
        for role, members in nodes.items():
            for node in members:
                config = NodeConfig(
                    cluster=peers,
                    role=role,
                    index=node.index,
                    dnn=load.dnn,
                    image_size=load.image_size,
                    batch_size=load.batch_size,
                    threads=node.group.threads,
                    inter_op_threads=node.group.inter_op_threads,
                    order=self.scenario.strategy.order,
                    placement=self.scenario.strategy.placement,
                    source=step_file(load.dnn, load.batch_size),
                )
                self._launch(node, config)
        started = [node.name for members in nodes.values() for node in members]
        self._programs.expect(started, "ready", START_TIMEOUT_S)
        self._ask(self.workers[0], "initialized", START_TIMEOUT_S, do="initialize")
        workers = [worker.name for worker in self.workers]
        first = {"do": "run", "steps": UNCONFINED_STEPS}
        self._programs.ask(workers, "ran", START_TIMEOUT_S, **first)
        for name in started:
            self._programs.confine(name)

    def _launch(self, node: Node, config: NodeConfig) -> None:
        module = "profilers.tf_throughput.program"
        self._programs.start(node.name, node, module, config.to_json(), environment(node))

    def _ask(self, worker: Node, answer: str, timeout_s: float, **command: object) -> Message:
        return self._programs.ask([worker.name], answer, timeout_s, **command)[worker.name]


def check_async_supported(scenario: Scenario) -> None:
    """Refuse strategies that this job cannot enforce.

    Raises:
        BadInput: flow control switched off.
    """
    if not scenario.strategy.flow_control:
        raise BadInput(
            f"cannot measure {scenario.label}: stock TensorFlow does not offer to switch HTTP/2 "
            "flow control off; use flow_control: true"
        )


def environment(node: Node) -> dict[str, str]:
    """Return the variables of a TensorFlow program: threads, instruction set."""
    threads = str(node.group.threads)
    variables = {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": "1",
        "OMP_NUM_THREADS": threads,
    }
    if node.group.isa is not None:
        variables["ONEDNN_MAX_CPU_ISA"] = node.group.isa
    return variables


def _step_time(message: Message) -> StepTime:
    return StepTime(cast(int, message["start_us"]), cast(int, message["end_us"]))


def step_times(message: Message) -> list[StepTime]:
    """Read the times that a program reported."""
    return [StepTime(*pair) for pair in cast(list[tuple[int, int]], message["times"])]


# A synchronous-SGD job on a cluster: starts its replicas, talks to them, ends them.


OPTIMISING_STEPS = 2
"""First steps of a group, in which TensorFlow optimises the graph."""


class OperationDescription(NamedTuple):
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

    operations: Sequence[OperationDescription]
    parameter_count: int


class SyncJob(BaseJob):
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
        check_sync_supported(scenario)
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
        with self._programs.filling(self._nodes[0].name) as (folder, node_folder):
            command: dict[str, object] = {"do": "trace", "steps": steps, "folder": str(node_folder)}
            (reply,) = self._ask(1, "traced", STEP_TIMEOUT_S * steps, **command)
        return step_times(reply), sorted(folder.iterdir())

    def shapes(self) -> Shapes:
        """Return what the operations of a step alone work on."""
        (reply,) = self._ask(1, "shapes", START_TIMEOUT_S, do="shapes")
        operations = cast(Sequence[Sequence[Any]], reply["operations"])
        count = cast(int, reply["parameter_count"])
        return Shapes([OperationDescription(*operation) for operation in operations], count)

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
            module = "profilers.tf_sync.program"
            self._programs.start(node.name, node, module, config.to_json(), environment(node))
        ready = self._programs.expect([node.name for node in self._nodes], "ready", START_TIMEOUT_S)
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


def check_sync_supported(scenario: Scenario) -> None:
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
