"""The nodes of a job and the programs on them: what decisions are carried out on."""

import json
import signal
from collections.abc import Callable
from itertools import count
from pathlib import Path

from pipelines.runtime.events import Train
from pipelines.runtime.job_file import How, TrainingJob
from pipelines.runtime.rank import RankConfig
from profilers.clusters import Cluster, Node
from profilers.clusters.node_types import node_group
from profilers.programs import Message, Programs
from profilers.torch_nodes import environment
from warehouse.records import ProbeFailed

RANK = "pipelines.runtime.rank"


class Fleet:
    """Nodes by the names that the controller gave them, one program on each.

    Args:
        cluster: up; its nodes come and go.
        programs: of the job; what is started here ends with them.
        job: what they train.
        folder: of the job: outlives nodes, as the volume of a provider does.
        program: module of the program on each node.
        notices: where a node is told of interruptions, by its name (see `notices.source`); None:
            files in `folder`.
    """

    def __init__(
        self,
        cluster: Cluster,
        programs: Programs,
        job: TrainingJob,
        folder: Path,
        program: str = RANK,
        notices: Callable[[str], str] | None = None,
    ) -> None:
        self._cluster, self._programs, self._job = cluster, programs, job
        self._folder, self._program = folder, program
        self._notices = notices or (lambda name: str(self._notice_file(name)))
        self._nodes: dict[str, Node] = {}
        self._running: dict[str, str] = {}
        self._serial = count()
        self.errors: dict[str, str] = {}
        self.facts: dict[str, str | int | float | bool | None] = {}

    def launch(self, name: str, node_type: str) -> None:
        """Bring a node up and start its program.

        Raises:
            StepcastError: it could not be had.
        """
        self._nodes[name] = self._cluster.add(node_group("worker", node_type, 1))
        self._start(name)

    def restart(self, name: str) -> None:
        """End a node's program and start it anew."""
        self._programs.send_signal(self._running.pop(name), signal.SIGKILL)
        self._start(name)

    def release(self, name: str) -> None:
        """Take a node down; one that never came up is none."""
        self._running.pop(name, None)
        if (node := self._nodes.pop(name, None)) is not None:
            self._cluster.remove(node)

    def confine(self, name: str) -> None:
        """Hold a node's program to its share from now on."""
        self._programs.confine(self._running[name])

    def train(self, decision: Train, iterations: int, checkpoint: Path | None) -> None:
        """Let nodes, in the order of their ranks, begin to train up to so many iterations."""
        self.facts = dict(self._cluster.facts())
        first = self._nodes[decision.nodes[0]]
        port = self._cluster.free_port(first)
        for rank, name in enumerate(decision.nodes):
            self._tell(
                name,
                do="train",
                rank=rank,
                batches=list(decision.batches),
                iterations=iterations,
                incarnation=decision.incarnation,
                address=first.address,
                port=port,
                checkpoint=None if checkpoint is None else str(checkpoint),
            )

    def save(self, name: str) -> None:
        """Let a node stop and write a checkpoint."""
        self._tell(name, do="save")

    def hear(self, timeout_s: float) -> tuple[str, Message | None] | None:
        """Return which node speaks next and what it says (None: its program has ended).

        None if nobody does, or only a program that nobody listens to any more.
        """
        heard = self._programs.hear(timeout_s)
        if heard is None:
            return None
        program, message = heard
        name = next((node for node, one in self._running.items() if one == program), None)
        if name is None:
            return None
        if message is None and self._programs.exit_code(program) > 0:
            self.errors[name] = self._programs.said(program).rpartition("\n")[2]
        return name, message

    def interrupt(self, name: str, how: How) -> None:
        """Do to a node what a provider might."""
        match how:
            case "kill":
                self._cluster.remove(self._nodes.pop(name))
            case "freeze":
                self._programs.send_signal(self._running[name], signal.SIGSTOP)
            case "notice":
                notice = {"action": "terminate", "time": "2026-01-01T00:02:00Z"}
                self._notice_file(name).write_text(json.dumps(notice))

    def _start(self, name: str) -> None:
        node, job = self._nodes[name], self._job
        program = f"{name}.{next(self._serial)}"
        config = RankConfig(
            interface=self._cluster.interface,
            threads=node.group.threads,
            inter_op_threads=node.group.inter_op_threads,
            dnn=job.dnn,
            image_size=job.image_size,
            samples=job.samples,
            seed=job.seed,
            folder=str(self._folder),
            keep=job.keep_checkpoints,
            every=job.checkpoint_every,
            beat_s=job.beat_s,
            notices=self._notices(name),
        )
        variables = environment(self._cluster, node)
        self._programs.start(program, node, self._program, config.to_json(), variables)
        self._running[name] = program

    def _tell(self, name: str, **command: object) -> None:
        try:
            self._programs.tell(self._running[name], **command)
        except ProbeFailed:
            # It has died: its end will be heard.
            return

    def _notice_file(self, name: str) -> Path:
        return self._folder / f"notice-{name}.json"
