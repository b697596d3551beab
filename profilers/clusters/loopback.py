"""Plain processes on 127.0.0.1: no shaping, no CPU shares. Runs everywhere, emulates nothing."""

import socket
import subprocess
from collections.abc import Mapping, Sequence
from typing import ClassVar

from profilers.clusters.base import Cluster, Node, with_env
from profilers.clusters.node_types import check_host
from warehouse.records import Backend, NodeGroup


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

    def remove(self, node: Node) -> None:
        """Kill what was started on the node."""
        self.nodes = tuple(other for other in self.nodes if other != node)
        for process in self._killed([node]):
            process.wait()

    def free_port(self, node: Node) -> int:
        """Ask the kernel for a port."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return int(probe.getsockname()[1])

    def confine(self, node: Node, process: "subprocess.Popen[str]") -> None:
        """Do nothing: loopback nodes are not held to their share."""

    def _argv(self, node: Node, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        return [*with_env(env), *argv]
