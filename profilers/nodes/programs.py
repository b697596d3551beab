"""Programs on nodes that obey JSON lines on stdin and answer with JSON lines on stdout."""

import json
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from profilers.clusters import Cluster, Node, owner
from warehouse import limits
from warehouse.records import ProbeFailed

Message = Mapping[str, object]
_SAID_BYTES = 1 << 20


class ProgramKilled(ProbeFailed):
    """A program was killed, most likely because its node has no more memory."""


class Programs:
    """The programs of one job by name, `label` in messages; a context manager that ends them.

    Raises:
        Killed: a program was killed.
        ProbeFailed: a program died, or did not answer; `detail` is what it wrote to stderr.
    """

    def __init__(self, cluster: Cluster, label: str) -> None:
        self._cluster, self._label = cluster, label
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self._nodes: dict[str, Node] = {}
        self._inbox: queue.Queue[tuple[str, Message | None]] = queue.Queue()
        self._strange: dict[str, str] = {}
        self._stack = ExitStack()

    @property
    def folder(self) -> Path:
        """A folder of this machine that lives as long as the job."""
        return self._folder

    def __enter__(self) -> Self:
        folder = tempfile.TemporaryDirectory(prefix="job-", dir=owner.folder())
        self._folder = Path(self._stack.enter_context(folder))
        self._stack.callback(self._kill)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def start(
        self, name: str, node: Node, module: str, config: str, environment: Mapping[str, str]
    ) -> None:
        """Start `python -m module config` on a node."""
        process = self._cluster.popen(
            node,
            [*self._cluster.python(node), "-m", module, config],
            env=environment,
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
        with self._cluster.shared(self._nodes[name], folder) as node_folder:
            yield folder, node_folder

    def confine(self, name: str) -> None:
        """Hold a program to its node's CPU share and memory from now on."""
        self._cluster.confine(self._nodes[name], self._processes[name])

    def ask(
        self, names: Collection[str], answer: str, timeout_s: float, **command: object
    ) -> dict[str, Message]:
        """Give programs the same command; return each one's answer."""
        for name in names:
            self.tell(name, **command)
        return self.expect(names, answer, timeout_s)

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
        silence_s = self._cluster.silence_s
        heard = self.hear(timeout_s if silence_s is None else min(timeout_s, silence_s))
        if heard is None:
            if silence_s is not None and silence_s < timeout_s:
                raise ProbeFailed(
                    f"no program of {self._label} has said anything for {silence_s:g} s, so they "
                    "count as lost; `silence_s` of the fleet file allows more"
                )
            raise ProbeFailed(f"no program of {self._label} answered in time")
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
        self._cluster.signal(self._processes[name], number)

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
            return ProbeFailed(f"{name} of {self._label} told no message: {line!r}", stderr)
        if code == -9:
            why = "killed, most likely out of memory"
            return ProgramKilled(f"{name} of {self._label} ended early ({why})", stderr)
        why = f"exit {code}: {stderr.splitlines()[-1]}" if stderr else f"exit {code}"
        return ProbeFailed(f"{name} of {self._label} ended early ({why})", stderr)

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


class BaseJob(ABC):
    """Programs that are started and ended together; a context manager, also if starting fails."""

    def __init__(self, cluster: Cluster, label: str) -> None:
        self._programs = Programs(cluster, label)

    @abstractmethod
    def _start(self) -> None:
        """Start the programs and wait until they are ready."""

    def __enter__(self) -> Self:
        self._programs.__enter__()
        try:
            self._start()
        except BaseException:
            self._programs.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._programs.__exit__(kind, error, trace)
