"""An asynchronous-SGD job on a cluster: starts its programs, talks to them, ends them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from networks.extraction import step_file
from profilers.clusters import Cluster, Node
from profilers.nodes.programs import Job, Message
from profilers.nodes.tf_async import NodeConfig
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


class AsyncJob(Job):
    """Parameter servers and workers of a scenario, ready to step; a context manager.

    Raises:
        BadInput: the scenario asks for what stock TensorFlow cannot be told.
        ProbeFailed: a program died; its `detail` is what it wrote to stderr.
    """

    def __init__(self, cluster: Cluster, scenario: Scenario, progress: Progress) -> None:
        check_supported(scenario)
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
        with self._programs.filling(worker.name) as (folder, there):
            command: dict[str, object] = {"do": "trace", "steps": steps, "folder": str(there)}
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
        module = "profilers.nodes.tf_async"
        self._programs.start(node.name, node, module, config.to_json(), environment(node))

    def _ask(self, worker: Node, answer: str, timeout_s: float, **command: object) -> Message:
        return self._programs.ask([worker.name], answer, timeout_s, **command)[worker.name]


def check_supported(scenario: Scenario) -> None:
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
