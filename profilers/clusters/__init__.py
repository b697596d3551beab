"""Clusters by backend."""

from collections.abc import Sequence
from typing import Literal

from profilers.clusters.base import Cluster, LoopbackCluster, Node
from profilers.clusters.emulated import EmulatedCluster, obstacles, reap
from profilers.clusters.fleet import BACKENDS, fleet_file, read_fleet
from profilers.clusters.ssh import SshCluster
from profilers.steady import host
from warehouse.records import Backend, BadInput, MissingTool, NodeGroup

__all__ = ["Cluster", "Node", "choose_backend", "host_id", "open_cluster", "reap"]

BackendChoice = Literal["auto", "emulated", "loopback", "ssh", "ec2"]


def open_cluster(backend: Backend, nodes: Sequence[NodeGroup], link_mbps: float | None) -> Cluster:
    """Return a cluster, to be used as a context manager.

    Raises:
        BadInput: the backend is unknown or cannot give these nodes.
    """
    match backend:
        case "emulated":
            return EmulatedCluster(nodes, link_mbps)
        case "loopback":
            return LoopbackCluster(nodes, link_mbps)
        case "ssh":
            return SshCluster(nodes, link_mbps)
        case "ec2":
            from profilers.clusters.ec2 import Ec2Cluster  # boto3 takes half a second to import

            return Ec2Cluster(nodes, link_mbps)
        case _:
            raise BadInput(f"no nodes of backend {backend!r}")


def choose_backend(wanted: BackendChoice) -> tuple[Backend, str]:
    """Return the backend to use and why.

    Raises:
        BadInput: `ssh` or `ec2` was asked for, and the fleet file is missing or wrong.
        MissingTool: `emulated` was asked for and this host does not permit it.
    """
    if wanted == "loopback":
        return "loopback", "asked for"
    if wanted in ("ssh", "ec2"):
        listed = read_fleet()
        where = f"of {fleet_file()}" if wanted == "ssh" else f"launched in {listed.launch().region}"
        return wanted, f"asked for; machines {where}"
    reasons = obstacles()
    if not reasons:
        return "emulated", "this host permits namespaces, shaped links and CPU shares"
    if wanted == "emulated":
        raise MissingTool(f"no emulated cluster here: {reasons[0]}; `stepcast doctor` says more")
    return "loopback", f"no emulated cluster here: {reasons[0]}"


def host_id(backend: Backend) -> str:
    """Return what the runs on a backend are told apart by: this host, or the fleet."""
    return read_fleet().host_id(backend) if backend in BACKENDS else host.host_id()
