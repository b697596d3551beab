"""Programs on nodes that obey JSON lines on stdin and answer with JSON lines on stdout."""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain, zip_longest
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import polars as pl

from profilers.clusters import Cluster, Node, owner
from profilers.clusters.node_types import gpus
from profilers.nodes.program import GPUS
from warehouse import limits
from warehouse.records import ProbeFailed

Message = Mapping[str, Any]
START_TIMEOUT_S = 300.0
STEP_TIMEOUT_S = 300.0
"""For a program to load its framework, and for a training step."""
_SAID_BYTES = 1 << 20
_CAPABILITIES = {"SSE41": "default", "AVX2": "avx2"}
"""PyTorch's own kernels by oneDNN instruction set; the others have AVX-512."""
_MKL = {"SSE41": "SSE4_2", "AVX2": "AVX2"}


class ProgramKilled(ProbeFailed):
    """A program was killed, most likely because its node has no more memory."""


class Programs:
    """The programs of one job by name, `label` in messages; a context manager that ends them.

    Raises:
        ProgramKilled: a program was killed.
        ProbeFailed: a program died, or did not answer; `detail` is what it wrote to stderr.
    """

    def __init__(self, cluster: Cluster, label: str) -> None:
        self.cluster, self.label = cluster, label
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._nodes: dict[str, Node] = {}
        self._inbox: queue.Queue[tuple[str, Message | None]] = queue.Queue()
        self._strange: dict[str, str] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(prefix="job-", dir=owner.folder())
        with ExitStack() as stack:
            self._folder = Path(stack.enter_context(folder))
            stack.callback(self._kill)
            self._start_all()
            self._stack = stack.pop_all()
        return self

    def _start_all(self) -> None:
        """Start the programs of a job that has them from its beginning, and make them ready."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start(self, name: str, node: Node, module: str, **config: object) -> None:
        """Start `python -m module CONFIG_JSON` on a node.

        Its config also has the node's network device and threads.
        """
        group = node.group
        own = {"threads": group.threads, "inter_op_threads": group.inter_op_threads}
        text = json.dumps({"interface": self.cluster.interface, **own, **config})
        process = self.cluster.popen(
            node,
            [*self.cluster.python(node), "-m", module, text],
            env=environment(self.cluster, node),
            stderr=self._folder / name,
        )
        self._processes[name], self._nodes[name] = process, node
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()

    @contextmanager
    def filling(self, name: str) -> Iterator[tuple[Path, Path]]:
        """Give a new folder here and one on a program's node; the first gets what is in the other.

        It does at the end of the block. Both live no longer than the job.
        """
        folder = Path(tempfile.mkdtemp(dir=self._folder))
        with self.cluster.shared(self._nodes[name], folder) as node_folder:
            yield folder, node_folder

    def confine(self, name: str) -> None:
        """Hold a program to its node's CPU share and memory from now on."""
        self.cluster.confine(self._nodes[name], self._processes[name])

    def ask(
        self, names: Collection[str], answer: str, timeout_s: float, **command: object
    ) -> list[Message]:
        """Give programs the same command; return their answers, in the order of the names."""
        for name in names:
            self.tell(name, **command)
        answers = self.expect(names, answer, timeout_s)
        return [answers[name] for name in names]

    def tell(self, name: str, **command: object) -> None:
        """Give a program a command."""
        stdin = self._processes[name].stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(command) + "\n")
        except BrokenPipeError:
            raise self._died(name) from None

    def expect(self, names: Collection[str], answer: str, timeout_s: float) -> dict[str, Message]:
        """Wait for an answer of each program; anything else they say is dropped."""
        deadline = time.monotonic() + timeout_s
        answers: dict[str, Message] = {}
        while answers.keys() < set(names):
            name, message = self.receive(deadline - time.monotonic())
            if message["event"] == answer:
                answers[name] = message
        return answers

    def receive(self, timeout_s: float) -> tuple[str, Message]:
        """Return who speaks next, and what it says."""
        silence_s = self.cluster.silence_s
        heard = self.hear(timeout_s if silence_s is None else min(timeout_s, silence_s))
        if heard is None:
            if silence_s is not None and silence_s < timeout_s:
                raise ProbeFailed(
                    f"no program of {self.label} has said anything for {silence_s:g} s, so they "
                    "count as lost; `silence_s` of the fleet file allows more"
                )
            raise ProbeFailed(f"no program of {self.label} answered in time")
        name, message = heard
        if message is None:
            raise self._died(name)
        return name, message

    def hear(self, timeout_s: float) -> tuple[str, Message | None] | None:
        """Return who speaks next, and what it says (None: it has ended); None if nobody does."""
        try:
            return self._inbox.get(timeout=max(timeout_s, 0.0))
        except queue.Empty:
            return None

    def send_signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; of one that is killed, its last words and its end may still be heard."""
        self.cluster.signal(self._processes[name], number)

    def exit_code(self, name: str) -> int:
        """Return how a program has ended, or ends within half a minute; below 0: by a signal."""
        return self._processes[name].wait(timeout=30)

    def said(self, name: str) -> str:
        """Return what a program has written to stderr so far, at most the end of it."""
        with (self._folder / name).open("rb") as file:
            file.seek(max(file.seek(0, os.SEEK_END) - _SAID_BYTES, 0))
            return file.read().decode(errors="replace").strip()

    def _listen(self, name: str, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        while line := process.stdout.readline(limits.JSON_BYTES):
            message = _understood(line)
            if message is not None and line.endswith("\n"):
                self._inbox.put((name, message))
            # A program that is killed may leave half a line.
            elif line.endswith("\n") or len(line) == limits.JSON_BYTES:
                self._strange[name] = line[:60]
                process.kill()
                break
        self._inbox.put((name, None))

    def _died(self, name: str) -> ProbeFailed:
        code, stderr = self.exit_code(name), self.said(name)
        if (line := self._strange.get(name)) is not None:
            return ProbeFailed(f"{name} of {self.label} told no message: {line!r}", stderr)
        if code == -9:
            why = "killed, most likely out of memory"
            return ProgramKilled(f"{name} of {self.label} ended early ({why})", stderr)
        why = f"exit {code}: {stderr.splitlines()[-1]}" if stderr else f"exit {code}"
        return ProbeFailed(f"{name} of {self.label} ended early ({why})", stderr)

    def _kill(self) -> None:
        for process in self._processes.values():
            process.kill()
            process.wait(timeout=30)


def _understood(line: str) -> Message | None:
    """Return the message that a line is; None if it is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) and "event" in message else None


class NodeProgram(Programs):
    """One program on a node, which says `ready`; a context manager.

    Args:
        cluster: where the node is.
        node: that runs it.
        label: in messages.
        module: the program.
        confined: when it is held to its node's share and memory: from its start, once it is ready,
            or "later", by `confine`.
        config: its own part of its config.
    """

    def __init__(
        self,
        cluster: Cluster,
        node: Node,
        label: str,
        module: str,
        confined: str = "ready",
        **config: object,
    ) -> None:
        super().__init__(cluster, label)
        self.node, self._module, self._confined, self._config = node, module, confined, config

    def _start_all(self) -> None:
        name = self.node.name
        self.start(name, self.node, self._module, **self._config)
        if self._confined == "start":
            self.confine(name)
        self.ready = self.expect([name], "ready", START_TIMEOUT_S)[name]
        if self._confined == "ready":
            self.confine(name)

    def answer(self, event: str, timeout_s: float, **command: object) -> Message:
        """Give it a command; return its answer."""
        (answer,) = self.ask([self.node.name], event, timeout_s, **command)
        return answer


def environment(cluster: Cluster, node: Node) -> dict[str, str]:
    """Return the variables of a program: threads, network device, instruction set, GPUs."""
    threads = str(node.group.threads)
    variables = {
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "GLOO_SOCKET_IFNAME": cluster.interface,
        "NCCL_SOCKET_IFNAME": cluster.interface,
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_USE_LEGACY_KERAS": "1",
    }
    if wanted := gpus(node.group.node_type):
        variables[GPUS] = str(wanted)
    isa = node.group.isa
    if isa is not None:
        variables["ONEDNN_MAX_CPU_ISA"] = isa
        variables["ATEN_CPU_CAPABILITY"] = _CAPABILITIES.get(isa, "avx512")
        variables["MKL_ENABLE_INSTRUCTIONS"] = _MKL.get(isa, "AVX512")
    return variables


def interleave_node_types(nodes: Sequence[Node]) -> tuple[Node, ...]:
    """Return nodes with their types in turn, so that the first few are a mix of all types."""
    kinds: dict[str, list[Node]] = {}
    for node in nodes:
        kinds.setdefault(node.group.node_type, []).append(node)
    mixed = chain.from_iterable(zip_longest(*kinds.values()))
    return tuple(node for node in mixed if node is not None)


def cluster_nodes(ready: Mapping[Node, Message]) -> pl.DataFrame:
    """Return table cluster_node of nodes, of what a program of each said when it was ready."""
    rows = [
        {
            "node": node.name,
            "role": node.role,
            "node_type": node.group.node_type,
            "address": node.address,
            "cores": node.group.cpu_share or float(said["cores"]),
            "memory_bytes": node.group.memory_bytes or said["memory_bytes"],
            "device_count": len(said["devices"]),
            "device_name": next(iter(said["devices"]), None),
        }
        for node, said in ready.items()
    ]
    return pl.DataFrame(rows, schema_overrides={"device_name": pl.String})
