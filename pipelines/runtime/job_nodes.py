"""The nodes of a job and the programs on them: what decisions are carried out on.

The controller knows nodes; each of their devices has a program, and so a rank, of its own. Programs
write into a folder of their node; where that is not the job's own, checkpoints are copied from it
as they are written, and what says which samples were taken when the node is given back.
"""

import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import cast

from pipelines.runtime import checkpoints
from pipelines.runtime.job_file import InterruptionKind, TrainingJob
from pipelines.runtime.messages import StartTraining
from pipelines.runtime.plan import MarketNodeType
from pipelines.runtime.rank import TrainingRankConfig
from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import node_group
from profilers.nodes.programs import Message, Programs
from warehouse.records import ProbeFailed, StepcastError

RANK = "pipelines.runtime.rank"


@dataclass
class _NodePrograms:
    """The programs of a node, one for each of its devices, and what they said of themselves."""

    programs: list[str]
    ready: set[str] = field(default_factory=set)
    beats: dict[str, int] = field(default_factory=dict)

    def heard(self, program: str, message: Message) -> Message | None:
        """Return what this is to the node: it is ready, or beats, once all its programs did.

        A beat has the fewest iterations that one of them has applied.
        """
        if message["event"] == "ready":
            self.ready.add(program)
            return message if len(self.ready) == len(self.programs) else None
        if message["event"] == "beat":
            self.beats[program] = cast(int, message["step"])
            if len(self.beats) < len(self.programs):
                return None
            step = min(self.beats.values())
            self.beats.clear()
            return {**message, "step": step}
        return message


class JobNodes:
    """Nodes by the names that the controller gave them, one program on each of their devices.

    Args:
        cluster: up; its nodes come and go.
        programs: of the job; what is started here ends with them.
        job: what they train.
        folder: of the job: outlives nodes.
        devices: of each node type; one where it is not named.
        program: module of the program on each node.
        notices: where a node is told of interruptions, by its name (see `notices.poll`); None:
            files in the node's folder.
    """

    def __init__(
        self,
        cluster: Cluster,
        programs: Programs,
        job: TrainingJob,
        folder: Path,
        devices: Mapping[str, int],
        program: str = RANK,
        notices: Callable[[str], str] | None = None,
    ) -> None:
        self._cluster, self._programs, self._job = cluster, programs, job
        self._folder, self._devices, self._program = folder, devices, program
        self._notices = notices or (lambda name: str(self._notice_file(name)))
        self._nodes: dict[str, Node] = {}
        self._folders: dict[str, Path] = {}
        self._running: dict[str, _NodePrograms] = {}
        self._serial = count()
        self._from_step = 0
        self.errors: dict[str, str] = {}
        self.facts: dict[str, str | int | float | bool | None] = {}
        self.host, self.software = dict(cluster.host()), dict(cluster.software())

    def launch(self, names: Sequence[str], kind: MarketNodeType) -> None:
        """Bring nodes of one kind up, together, and start their programs.

        Raises:
            StepcastError: they could not be had; none of them is up.
        """
        group = node_group("worker", kind.node_type, len(names))
        nodes = self._cluster.add(group, spot=kind.market == "spot")
        self._nodes |= zip(names, nodes, strict=True)
        try:
            for name, node in zip(names, nodes, strict=True):
                self._folders[name] = self._cluster.folder(node, self._folder)
                self._start(name)
        except StepcastError:
            for name in names:
                self.release(name)
            raise

    def restart(self, name: str) -> None:
        """End a node's programs and start them anew."""
        self._kill(self._running.pop(name).programs)
        self._start(name)

    def release(self, name: str) -> None:
        """Take a node down; one that never came up is none."""
        running = self._running.pop(name, None)
        self._bring_samples(name, [] if running is None else running.programs)
        if (node := self._nodes.pop(name, None)) is not None:
            self._cluster.remove(node)

    def leave(self) -> None:
        """Bring here what would be gone with the nodes, all of which are about to end."""
        for name in self._nodes:
            self._bring_samples(name)

    def confine(self, name: str) -> None:
        """Hold a node's programs to its share from now on."""
        for program in self._running[name].programs:
            self._programs.confine(program)

    def train(self, decision: StartTraining, iterations: int, checkpoint: Path | None) -> None:
        """Let nodes, in the order of their ranks, begin to train up to so many iterations.

        A node's samples are divided among its devices, evenly but for a remainder.

        Raises:
            ProbeFailed: the first of them cannot be given the checkpoint.
        """
        self._from_step = decision.step
        self.facts = dict(self._cluster.facts())
        self.host |= self._cluster.host()
        self.software |= self._cluster.software()
        first = self._nodes[decision.nodes[0]]
        port = self._cluster.free_port(first)
        if checkpoint is not None:
            checkpoint = self._sent(checkpoint, decision.nodes[0])
        ranks = [
            (program, share)
            for name, batch_size in zip(decision.nodes, decision.batches, strict=True)
            for program, share in self._shares(name, batch_size)
        ]
        for rank, (program, _) in enumerate(ranks):
            self._tell(
                program,
                do="train",
                rank=rank,
                batches=[share for _, share in ranks],
                iterations=iterations,
                incarnation=decision.incarnation,
                address=first.address,
                port=port,
                checkpoint=None if checkpoint is None else str(checkpoint),
            )

    def save(self, name: str) -> None:
        """Let a node stop and write a checkpoint, if it has got as far as the last one."""
        self._tell(self._running[name].programs[0], do="save", from_step=self._from_step)

    def hear(self, timeout_s: float) -> tuple[str, Message | None] | None:
        """Return which node speaks next and what it says (None: a program of it has ended).

        None if nobody does, or only a program that nobody listens to any more, or the first of
        several of a node that all have to say so.
        """
        heard = self._programs.hear(timeout_s)
        if heard is None:
            return None
        program, message = heard
        running = self._running.items()
        name = next(
            (node for node, node_programs in running if program in node_programs.programs), None
        )
        if name is None:
            return None
        if message is None:
            if self._programs.exit_code(program) > 0:
                self.errors[name] = self._programs.said(program).rpartition("\n")[2]
            return name, None
        written = message["event"] == "saved" and message["written"]
        if written and not self._brought(name, cast(int, message["step"])):
            return None
        of_node = self._running[name].heard(program, message)
        return None if of_node is None else (name, of_node)

    def interrupt(self, name: str, how: InterruptionKind) -> None:
        """Do to a node what a provider might."""
        match how:
            case "kill":
                self._cluster.remove(self._nodes.pop(name))
            case "freeze":
                for program in self._running[name].programs:
                    self._programs.send_signal(program, signal.SIGSTOP)
            case "notice":
                notice = {"action": "terminate", "time": "2026-01-01T00:02:00Z"}
                content = json.dumps(notice).encode()
                self._cluster.write(self._nodes[name], self._notice_file(name), content)

    def _brought(self, name: str, step: int) -> bool:
        """Copy the checkpoint that a node has written into the job's folder, if it still can be."""
        if (node_folder := self._folders[name]) == self._folder:
            return True
        if (node := self._nodes.get(name)) is None:
            return False
        try:
            content = self._cluster.read(node, checkpoints.path(node_folder, step))
        except ProbeFailed:
            return False
        with self._writing():
            checkpoints.write(self._folder, step, content, self._job.keep_checkpoints)
        return True

    def _bring_samples(self, name: str, training: Sequence[str] = ()) -> None:
        """Copy what a node's programs wrote of the samples they took; of a dead node, nothing.

        Those that still train are ended first: steps they took during the copy would not be in it.
        """
        node, node_folder = self._nodes.get(name), self._folders.get(name, self._folder)
        if node is None or node_folder == self._folder:
            return
        self._kill(training)
        with suppress(ProbeFailed):
            for file in self._cluster.run(node, ["ls", str(node_folder)]).split():
                if checkpoints.is_log(file):
                    content = self._cluster.read(node, node_folder / file)
                    with self._writing():
                        (self._folder / file).write_bytes(content)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Write into the job's folder, or say that it cannot be done."""
        try:
            yield
        except OSError as error:
            raise StepcastError(
                f"what a node sent could not be written to {self._folder}: {error.strerror}; free "
                "some space, and the same command goes on from the last checkpoint"
            ) from error

    def _kill(self, programs: Sequence[str]) -> None:
        for program in programs:
            # One that has ended by itself cannot be killed.
            with suppress(ProbeFailed):
                self._programs.send_signal(program, signal.SIGKILL)

    def _sent(self, checkpoint: Path, name: str) -> Path:
        """Copy a checkpoint to a node; return where it is there."""
        if (node_folder := self._folders[name]) == self._folder:
            return checkpoint
        self._cluster.write(
            self._nodes[name], node_folder / checkpoint.name, checkpoint.read_bytes()
        )
        return node_folder / checkpoint.name

    def _shares(self, name: str, batch_size: int) -> list[tuple[str, int]]:
        """Return each program of a node, and how much of the node's samples it takes."""
        programs = self._running[name].programs
        each, more = divmod(batch_size, len(programs))
        return [(program, each + (i < more)) for i, program in enumerate(programs)]

    def _start(self, name: str) -> None:
        node = self._nodes[name]
        programs = []
        for device in range(self._devices.get(node.group.node_type, 1)):
            programs.append(f"{name}.{next(self._serial)}")
            config = asdict(self._config(name, device))
            self._programs.start(programs[-1], node, self._program, **config)
        self._running[name] = _NodePrograms(programs)

    def _config(self, name: str, device: int) -> TrainingRankConfig:
        node, job = self._nodes[name], self._job
        return TrainingRankConfig(
            interface=self._cluster.interface,
            device=device,
            threads=node.group.threads,
            inter_op_threads=node.group.inter_op_threads,
            dnn=job.dnn,
            image_size=job.image_size,
            samples=job.samples,
            seed=job.seed,
            folder=str(self._folders[name]),
            keep=job.keep_checkpoints,
            every=job.checkpoint_every,
            beat_s=job.beat_s,
            notices=self._notices(name),
        )

    def _tell(self, program: str, **command: object) -> None:
        try:
            self._programs.tell(program, **command)
        except ProbeFailed:
            # It has died: its end will be heard.
            return

    def _notice_file(self, name: str) -> Path:
        return self._folders[name] / f"notice-{name}.json"
