"""What every cluster offers, whatever its backend: up, run on a node, copy files, down.

The simplest backend is here too: plain processes on 127.0.0.1, without shaping or shares.
"""

import signal
import socket
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from profilers import clock, commands
from profilers.clusters.node_types import check_host, gpus
from profilers.steady import host
from profilers.steady.host import CpuTimes
from warehouse.child_process import bound
from warehouse.records import Backend, NodeGroup, Role

SOURCE = Path(__file__).parents[2]
"""Where this project's packages are."""


@dataclass(frozen=True)
class Node:
    """One machine of a cluster: `index` counts the nodes of its role."""

    name: str
    role: Role
    index: int
    address: str
    group: NodeGroup


class Cluster(ABC):
    """Nodes that are up and reachable between `up` and `down`; a context manager.

    `down` may be called at any time and any number of times, also when `up` failed half-way.
    """

    backend: ClassVar[Backend]
    here: ClassVar[bool] = True
    """Whether the nodes are processes of this host."""
    interface: str = "eth0"
    """Network device of a node that its traffic with other nodes passes."""
    expected_s: float | None = None
    """Seconds for which it is needed, where somebody knows: rented nodes live not much longer."""
    most_s: float | None = None
    """Seconds after which nobody needs it, where somebody knows."""
    silence_s: float | None = None
    """Seconds after which a program that says nothing counts as lost; None: as its probe says."""
    ends_on_notice: bool = True
    """Whether programs are ended when a node is about to be taken away; else they watch out."""

    def __init__(self, groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
        self.groups = tuple(groups)
        self.link_mbps = link_mbps
        self.nodes: tuple[Node, ...] = ()
        self._processes: list[tuple[Node, subprocess.Popen[str]]] = []
        self.clock = clock.environment()

    @abstractmethod
    def up(self) -> None:
        """Make the nodes and links; fills `nodes`."""

    @abstractmethod
    def add(self, group: NodeGroup, *, spot: bool | None = None) -> tuple[Node, ...]:
        """Bring up the nodes of one more group: all of them, or none.

        Args:
            group: worker, server or neighbour nodes.
            spot: whether they are rented in the spot market, where nodes are rented at all; None:
                as for the others.

        Raises:
            BadInput: they cannot be had beside those that are up.
            ProbeFailed: their provider refuses, or one of them does not come up.
        """

    def remove(self, node: Node) -> None:
        """Take a node down with all that runs on it, as its provider would: without a word."""
        self.nodes = tuple(other for other in self.nodes if other != node)
        for process in self._killed([node]):
            process.wait()

    @abstractmethod
    def free_port(self, node: Node) -> int:
        """Return a TCP port that nothing on the node listens to."""

    def confine(self, node: Node, process: "subprocess.Popen[str]") -> None:  # noqa: B027
        """Hold a process to its node's CPU share and memory from now on, where possible."""

    def facts(self) -> Mapping[str, str | int | float | bool | None]:
        """What a run must remember of this cluster (shaping, congestion control, MTU …)."""
        return {"shaped": False, "cpu_shares_enforced": False}

    def usd_per_hour(self) -> float | None:
        """Return what the nodes that are up cost an hour; None: they are not rented."""
        return None

    def lost(self) -> str | None:
        """Return why programs ended, where a provider has taken a node away or is about to."""
        return None

    def host_gflops(self, since: datetime) -> float | None:
        """Return how fast the host's cores were since then, where nodes are held to steady ones.

        Raises:
            ProbeFailed: nodes were not held to them.
        """
        return None

    @abstractmethod
    def _argv(self, node: Node, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """Return what to run here so that `argv` runs on the node with these variables added."""

    def python(self, node: Node) -> list[str]:
        """Return the words that run Python there, which can import `profilers`."""
        return ["env", f"PYTHONPATH={SOURCE}", sys.executable]

    def popen(
        self,
        node: Node,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        stderr: Path | None = None,
    ) -> "subprocess.Popen[str]":
        """Start a process on a node with pipes; it is killed when the cluster or its maker ends.

        On this host, nodes of a type without GPUs see none.
        """
        hides = self.here and not gpus(node.group.node_type)
        hidden = {"CUDA_VISIBLE_DEVICES": ""} if hides else {}
        with stderr.open("w") if stderr else open("/dev/null", "w") as errors:
            process = subprocess.Popen(
                bound(self._argv(node, argv, {**self.clock, **hidden, **(env or {})})),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                errors="replace",
                bufsize=1,
            )
        self._processes.append((node, process))
        return process

    def run(self, node: Node, argv: Sequence[str], *, timeout_s: float = 20) -> str:
        """Run a program on a node to its end; see `profilers.commands.run`."""
        return commands.run(self._argv(node, argv, {}), timeout_s=timeout_s)

    def signal(self, process: "subprocess.Popen[str]", number: signal.Signals) -> None:
        """Send a signal to what `popen` started."""
        process.send_signal(number)

    def folder(self, node: Node, folder: Path) -> Path:
        """Return the node's own folder that stands for one here; itself where they are shared.

        What is in it is gone with the node.
        """
        return folder

    def read(self, node: Node, path: Path) -> bytes:
        """Return the content of a file of the node."""
        return path.read_bytes()

    def write(self, node: Node, path: Path, content: bytes) -> None:
        """Write a file of the node."""
        path.write_bytes(content)

    @contextmanager
    def shared(self, node: Node, folder: Path) -> Iterator[Path]:
        """Give a folder of the node; what is in it at the end of the block is in `folder` here."""
        yield folder

    def host_id(self) -> str:
        """Hash of what runs must have in common to be comparable."""
        return host.host_id()

    def host(self) -> Mapping[str, str]:
        """Return what the nodes' machines are."""
        return host.description()

    def software(self) -> Mapping[str, str]:
        """Return the versions of Python and of the frameworks on the nodes."""
        return host.software()

    def cpu_times(self) -> CpuTimes:
        """Return what the kernels of the nodes' machines have counted so far, added up."""
        return host.cpu_times()

    def down(self) -> None:
        """Kill every process and remove everything the cluster made."""
        for process in self._killed({node for node, _ in self._processes}):
            process.communicate()

    def _killed(self, nodes: Collection[Node]) -> list["subprocess.Popen[str]"]:
        """Kill and forget what was started on these nodes, and return it."""
        killed = [process for node, process in self._processes if node in nodes]
        self._processes = [process for process in self._processes if process[0] not in nodes]
        for process in killed:
            with suppress(ProcessLookupError):
                process.kill()
        return killed

    def next_indices(self, group: NodeGroup) -> range:
        """Return the indices of the nodes of one more group, beside those of its role."""
        first = 1 + max((node.index for node in self.of_role(group.role)), default=-1)
        return range(first, first + group.count)

    def of_role(self, role: Role) -> tuple[Node, ...]:
        """Return the nodes of one role, by index."""
        return tuple(node for node in self.nodes if node.role == role)

    def planned(self) -> list[tuple[Role, int, NodeGroup]]:
        """Return (role, index, group) of each node: servers, workers, then neighbours."""
        plan: list[tuple[Role, int, NodeGroup]] = []
        for role in ("server", "worker", "neighbour"):
            groups = [g for g in self.groups if g.role == role for _ in range(g.count)]
            plan += [(group.role, index, group) for index, group in enumerate(groups)]
        return plan

    def __enter__(self) -> Self:
        try:
            self.up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()


def with_env(env: Mapping[str, str]) -> list[str]:
    """Return the words that add variables to the environment of the command behind them."""
    return ["env", *(f"{key}={value}" for key, value in env.items())] if env else []


class LoopbackCluster(Cluster):
    """All nodes share this host's cores and its loopback device; accuracy is not a goal here.

    Raises:
        BadInput: a node type declares what this host lacks.
    """

    backend: ClassVar[Backend] = "loopback"
    interface: str = "lo"

    def __init__(self, groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
        super().__init__(groups, link_mbps)
        for group in groups:
            check_host(group)

    def up(self) -> None:
        """Name the nodes; there is nothing to make."""
        self.nodes = tuple(
            Node(f"{role}{index}", role, index, "127.0.0.1", group)
            for role, index, group in self.planned()
        )

    def add(self, group: NodeGroup, *, spot: bool | None = None) -> tuple[Node, ...]:
        """Name the nodes of one more group."""
        check_host(group)
        added = tuple(
            Node(f"{group.role}{index}", group.role, index, "127.0.0.1", group.one)
            for index in self.next_indices(group)
        )
        self.nodes += added
        return added

    def free_port(self, node: Node) -> int:
        """Ask the kernel for a port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def _argv(self, node: Node, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        return [*with_env(env), *argv]
