"""A cluster on one machine: shaped links, CPU shares, memory limits, and steady cores."""

import itertools
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from statistics import fmean
from threading import Thread
from typing import ClassVar

from profilers import clock, commands
from profilers.clusters import cgroups, netns, owner
from profilers.clusters.base import SOURCE, Cluster, Node, with_env
from profilers.clusters.node_types import check_host
from warehouse.records import Backend, BadInput, MissingTool, NodeGroup, ProbeFailed

HEADROOM = 0.25
"""Cores to leave for the kernel's network work and for servers without a share."""
STEADY_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40)}
"""Tells glibc to keep what is freed: to get it from the kernel again takes a fifth of some steps,
and none of others, as it happened to be allocated."""


class EmulatedCluster(Cluster):
    """Nodes are network namespaces on this host, held to their type's share and speed.

    Where a type has steady cores, shares follow the speed of the host's (`pacer`).

    Raises:
        BadInput: the shares need more cores than there are, or a type declares what it lacks.
        MissingTool: this host does not permit it; `loopback` runs everywhere.
    """

    backend: ClassVar[Backend] = "emulated"

    def __init__(self, groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
        super().__init__(groups, link_mbps)
        check_shares(groups)
        for group in groups:
            check_host(group)
        self._network = netns.NamespaceNetwork(owner.new_prefix(), link_mbps)
        self._added = itertools.count(len(self.planned()))
        self._ports = itertools.count(5000)
        self._pacer = Pacer()

    def up(self) -> None:
        """Create control groups, namespaces and links."""
        reap()
        plan = {f"{role}{index}": (role, index, group) for role, index, group in self.planned()}
        for name, (_, _, group) in plan.items():
            self._limit(name, group)
        addresses = self._network.up(plan)
        self.nodes = tuple(
            Node(name, role, index, addresses[name], group)
            for name, (role, index, group) in plan.items()
        )

    def add(self, group: NodeGroup, *, spot: bool | None = None) -> tuple[Node, ...]:
        """Create the control groups, namespaces and links of the nodes of one more group."""
        check_shares([group, *(node.group.one for node in self.nodes)])
        check_host(group)
        before = self.nodes
        for index in itertools.islice(self._added, group.count):
            name = f"{group.role}{index}"
            self._limit(name, group)
            address = self._network.join(name, index + 1)
            self.nodes += (Node(name, group.role, index, address, group.one),)
        return self.nodes[len(before) :]

    def remove(self, node: Node) -> None:
        """Kill what runs on the node, delete its groups and its namespace."""
        super().remove(node)
        name = self._network.namespace(node.name)
        cgroups.delete(name)
        netns.delete(name)

    def free_port(self, node: Node) -> int:
        """Count upwards: the namespaces are ours alone."""
        return next(self._ports)

    def confine(self, node: Node, process: "subprocess.Popen[str]") -> None:
        """Move the process into its node's control groups."""
        cgroups.join(self._network.namespace(node.name), process.pid)

    def facts(self) -> Mapping[str, str | int | float | bool | None]:
        """Shaping and congestion control, as every run records them."""
        return {
            "shaped": self.link_mbps is not None,
            "cpu_shares_enforced": True,
            "congestion_control": netns.congestion_control(
                self._network.namespace(self.nodes[0].name)
            ),
            "queue_s": netns.QUEUE_S,
            "mtu_bytes": netns.MTU_BYTES,
            "cpu_period_us": cgroups.CPU_PERIOD_US,
        }

    def host_gflops(self, since: datetime) -> float | None:
        """What the pacer saw."""
        return self._pacer.host_gflops(since)

    def down(self) -> None:
        """Kill the processes, delete groups and namespaces."""
        super().down()
        self._pacer.stop()
        for name in cgroups.names(self._network.prefix):
            cgroups.delete(name)
        self._network.down()

    def _argv(self, node: Node, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        if node.group.core_gflops is not None:
            env = {**STEADY_MEMORY, **env}
        # `ip netns exec` would remount /sys and hide the control groups from the process.
        enter = ["nsenter", f"--net={netns.NETNS / self._network.namespace(node.name)}"]
        return [*with_env(env), *enter, *argv]

    def _limit(self, name: str, group: NodeGroup) -> None:
        """Create a node's control groups; pace them where its cores are steady."""
        name = self._network.namespace(name)
        cgroups.create(name, group.cpu_share, group.memory_bytes)
        if group.core_gflops is not None and group.cpu_share is not None:
            self._pacer.add(name, group.cpu_share, group.core_gflops)


def check_shares(groups: Sequence[NodeGroup]) -> None:
    """Refuse more CPU shares than this host has cores to give.

    Raises:
        BadInput: the sum of shares and headroom exceeds the cores.
    """
    wanted = sum(group.count * (group.cpu_share or 0) for group in groups)
    cores = os.cpu_count() or 1
    if wanted + HEADROOM > cores:
        raise BadInput(
            f"the nodes' CPU shares add up to {wanted:g} cores, but this host has {cores} and "
            f"{HEADROOM:g} must stay free; use fewer workers or node types with a smaller share"
        )


def obstacles() -> list[str]:
    """Say what keeps this host from emulating clusters, by trying; empty if nothing does."""
    tools = commands.missing_tools("ip", "tc", "nsenter", "setpriv", "sysctl", "iperf3")
    if tools:
        return [f"not installed: {', '.join(tools)}"]
    if os.geteuid() != 0:
        return ["network namespaces and CPU shares need root"]
    trial = NodeGroup(role="worker", node_type="trial", count=1, cpu_share=0.1)
    try:
        with EmulatedCluster([trial], link_mbps=100):
            return []
    except (MissingTool, ProbeFailed, BadInput) as error:
        return [str(error)]


def reap() -> list[str]:
    """Remove what this home's dead owners left; return the names.

    That is namespaces, control groups and temporary files. What is of other homes stays: nothing
    here proves that its owner is dead.
    """
    orphans = {name for name in netns.namespaces() if owner.is_orphan(name)}
    orphans |= {name for name in cgroups.names(owner.PREFIX) if owner.is_orphan(name)}
    for name in sorted(orphans):
        cgroups.delete(name)
        if (netns.NETNS / name).exists():
            netns.delete(name)
    return [*sorted(orphans), *owner.sweep()]


# Who holds control groups to their share of a steady core: a program beside the cluster.


_KEPT = 10_000
"""Readings that are remembered: those of about three hours."""


class Pacer:
    """Runs the program; what it is given keeps its share of a steady core until it stops."""

    def __init__(self) -> None:
        self._program: subprocess.Popen[bytes] | None = None
        self._listener: Thread | None = None
        self._read: deque[tuple[datetime, float]] = deque(maxlen=_KEPT)

    def add(self, name: str, cpu_share: float, core_gflops: float) -> None:
        """Pace the control group called `name`, which has that share, from now on."""
        if self._program is None:
            self._program = subprocess.Popen(
                [sys.executable, "-m", "profilers.steady.core_quota"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)},
            )
            self._listener = Thread(target=self._listen, args=(self._program,), daemon=True)
            self._listener.start()
        assert self._program.stdin is not None
        group = {"name": name, "cpu_share": cpu_share, "core_gflops": core_gflops}
        self._program.stdin.write(f"{json.dumps(group)}\n".encode())
        self._program.stdin.flush()

    def host_gflops(self, since: datetime) -> float | None:
        """Return how fast the host's cores were since then, 10⁹ operations a second each.

        None where nothing is paced, or nothing was heard yet.

        Raises:
            ProbeFailed: the program has ended: nodes went on at whatever pace they had.
        """
        if self._program is None:
            return None
        if self._program.poll() is not None:
            raise ProbeFailed(
                f"the program that paces steady cores has ended (exit {self._program.returncode}); "
                "what was measured since is of no steady speed: run it again"
            )
        gflops = [speed for at, speed in self._read.copy() if at >= since]
        return fmean(gflops) if gflops else None

    def stop(self) -> None:
        """End the program, if it was started; safe to call twice."""
        if self._program is not None:
            assert self._listener is not None
            with self._program as program:
                program.kill()
                self._listener.join()
            self._program = None

    def _listen(self, program: "subprocess.Popen[bytes]") -> None:
        assert program.stdout is not None
        for line in program.stdout:
            self._read.append((clock.now(), float(line)))
