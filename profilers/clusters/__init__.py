"""Clusters by backend."""

from collections.abc import Sequence
from typing import Literal

from profilers.clusters.base import Cluster, Node
from profilers.clusters.emulated import EmulatedCluster, obstacles, reap
from profilers.clusters.loopback import LoopbackCluster
from warehouse.records import Backend, BadInput, MissingTool, NodeGroup

__all__ = ["Cluster", "Node", "choose_backend", "open_cluster", "reap"]

BackendChoice = Literal["auto", "emulated", "loopback"]
_CLUSTERS: dict[Backend, type[Cluster]] = {
    "emulated": EmulatedCluster,
    "loopback": LoopbackCluster,
}


def open_cluster(backend: Backend, nodes: Sequence[NodeGroup], link_mbps: float | None) -> Cluster:
    """Return a cluster, to be used as a context manager.

    Raises:
        BadInput: the backend is unknown or cannot give these nodes.
    """
    if backend not in _CLUSTERS:
        raise BadInput(f"no backend {backend!r}; there are {', '.join(_CLUSTERS)}")
    return _CLUSTERS[backend](nodes, link_mbps)


def choose_backend(wanted: BackendChoice) -> tuple[Backend, str]:
    """Return the backend to use and why.

    Raises:
        MissingTool: `emulated` was asked for and this host does not permit it.
    """
    if wanted == "loopback":
        return "loopback", "asked for"
    found = obstacles()
    if not found:
        return "emulated", "this host permits namespaces, shaped links and CPU shares"
    if wanted == "emulated":
        raise MissingTool(f"no emulated cluster here: {found[0]}; `stepcast doctor` says more")
    return "loopback", f"no emulated cluster here: {found[0]}"
