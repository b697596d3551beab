"""Where workloads train: nodes that the catalogue names, or that have registered."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from models.predictddl.observations import DENSE, DEPTHWISE, DISK, MEMORY, POINTWISE, Capabilities
from pipelines.service.contracts import Cluster, Nodes, Report
from profilers.clusters.node_types import gpus, node_group
from warehouse.records import BadInput, NodeGroup

_NOW = "@cluster"
"""Ends the name of a registered node's type: what is free of it now is not what was profiled."""


@dataclass(frozen=True)
class NodeSelection:
    """Where workloads train.

    Attributes:
        groups: the nodes.
        measured: by node type and metric of probe `inventory`, what the history does not know.
        link_mbps: of their links; None: nobody said.
        devices: of each node that train: as many as were named, or its GPUs; one where it has none.
    """

    groups: tuple[NodeGroup, ...]
    measured: Mapping[str, Mapping[str, float]]
    link_mbps: float | None
    devices: int = 1

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes there are of each type."""
        return {group.node_type.removesuffix(_NOW): group.count for group in self.groups}


def of_types(nodes: Iterable[Nodes], link_mbps: float | None) -> NodeSelection:
    """Return nodes of types that the catalogue has.

    Raises:
        BadInput: there is no such type, their numbers of devices differ, or nobody told the speed
            of links between them.
    """
    counts: Counter[str] = Counter()
    devices: dict[str, int] = {}
    for node in nodes:
        counts[node.node_type] += node.count
        if devices.setdefault(node.node_type, node.devices_per_node) != node.devices_per_node:
            raise BadInput(f"{node.node_type} is named twice, with another devices_per_node each")
    if len(set(devices.values())) > 1:
        raise BadInput(
            "nodes that train together have equally many devices each (devices_per_node), found "
            f"{_listed(devices)}"
        )
    groups = tuple(node_group("worker", name, count) for name, count in counts.items())
    _check_link(groups, link_mbps)
    return NodeSelection(groups, {}, link_mbps, max(devices.values()))


def of_cluster(cluster: Cluster, link_mbps: float | None) -> NodeSelection:
    """Return the nodes that have registered, on their slowest link if none is named.

    Nodes of one type are taken for alike: each can do what the least of them can. A type of nodes
    with GPUs is one that was profiled: what such a node tells of its processors says little.

    Raises:
        BadInput: none has registered, or their numbers of GPUs differ by type; or nodes with GPUs
            are of a type that nobody knows; or nobody told the speed of links between nodes.
    """
    if not cluster.nodes:
        raise BadInput(
            "no node has registered: name some under `nodes`, or run `stepcast serve --join` "
            "on them"
        )
    by_type: dict[str, list[Report]] = {}
    for node in cluster.nodes:
        by_type.setdefault(node.report.node_type, []).append(node.report)
    gpus = {name: min(node.gpus for node in reports) for name, reports in by_type.items()}
    if len(set(gpus.values())) > 1:
        raise BadInput(
            f"nodes that train together have equally many GPUs each, found {_listed(gpus)}; let "
            "some leave, or name others under `nodes`"
        )
    links = [node.report.link_mbps for node in cluster.nodes if node.report.link_mbps is not None]
    link_mbps = link_mbps or min(links, default=None)
    devices = max(gpus.values())
    if devices:
        groups = tuple(_with_gpus(name, len(reports)) for name, reports in by_type.items())
        _check_link(groups, link_mbps)
        return NodeSelection(groups, {}, link_mbps, devices)
    free = [_free(name, reports) for name, reports in by_type.items()]
    measured = {group.node_type: rates for group, rates in free}
    groups = tuple(group for group, _ in free)
    _check_link(groups, link_mbps)
    return NodeSelection(groups, measured, link_mbps)


def _check_link(groups: Sequence[NodeGroup], link_mbps: float | None) -> None:
    """Refuse several nodes on links of a speed that nobody told.

    Raises:
        BadInput: saying where to tell it.
    """
    count = sum(group.count for group in groups)
    # Networks of nodes with GPUs are those of the catalogue.
    if count > 1 and link_mbps is None and not all(gpus(group.node_type) for group in groups):
        raise BadInput(
            f"{count:,} nodes exchange gradients, and nobody told how fast their links are: give "
            "link_mbps"
        )


def _with_gpus(node_type: str, count: int) -> NodeGroup:
    """Return nodes with GPUs, as the catalogue declares them.

    Raises:
        BadInput: it does not; the message says what to do.
    """
    try:
        return node_group("worker", node_type, count)
    except BadInput:
        raise BadInput(
            f"nodes with GPUs are forecast from steps on their type, and {node_type} is no node "
            "type (`stepcast node-types`): `stepcast run` a study that trains on one, and let it "
            "join as the type that the study names (--type)"
        ) from None


def _free(node_type: str, reports: Sequence[Report]) -> tuple[NodeGroup, dict[str, float]]:
    """Return nodes without GPUs, and by metric what is free of each: what is of the least."""
    least = _least([node.available for node in reports])
    group = NodeGroup(
        role="worker",
        node_type=f"{node_type}{_NOW}",
        count=len(reports),
        cpu_share=least.cores,
        # PyTorch starts a thread for each core, whatever others do there.
        threads=max(int(min(node.cores for node in reports)), 1),
        memory_bytes=int(least.memory_bytes) or None,
    )
    rates = {
        DENSE: least.dense_flops,
        DEPTHWISE: least.depthwise_flops,
        MEMORY: least.memory_Bps,
        DISK: least.disk_Bps,
    }
    if all(node.pointwise_flops for node in reports):
        rates[POINTWISE] = least.pointwise_part * least.dense_flops
    return group, rates


def _listed(gpus: Mapping[str, int]) -> str:
    return ", ".join(f"{name} with {count}" for name, count in gpus.items())


def _least(several: Sequence[Capabilities]) -> Capabilities:
    names = Capabilities.model_fields
    return Capabilities(
        **{name: min(getattr(capabilities, name) for capabilities in several) for name in names}
    )
