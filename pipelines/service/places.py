"""Where workloads train: nodes of types that were profiled, or those that have registered."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from models.predictddl.observed import DENSE, DEPTHWISE, DISK, MEMORY, Capabilities
from pipelines.service.contracts import Cluster, Nodes
from profilers.clusters.node_types import node_group
from warehouse.records import BadInput, NodeGroup

_NOW = "@cluster"
"""Ends the name of a registered node's type: what is free of it now is not what was profiled."""


@dataclass(frozen=True)
class Place:
    """Where workloads train.

    Attributes:
        groups: the nodes.
        measured: by node type and metric of probe `inventory`, what the history does not know.
        link_mbps: of their links; None: nobody said.
    """

    groups: tuple[NodeGroup, ...]
    measured: Mapping[str, Mapping[str, float]]
    link_mbps: float | None

    @property
    def counts(self) -> dict[str, int]:
        """How many nodes there are of each type."""
        return {one.node_type.removesuffix(_NOW): one.count for one in self.groups}


def of_types(nodes: Iterable[Nodes], link_mbps: float | None) -> Place:
    """Return a place of nodes of types that the catalogue has.

    Raises:
        BadInput: there is no such type.
    """
    counts: Counter[str] = Counter()
    for one in nodes:
        counts[one.node_type] += one.count
    groups = tuple(node_group("worker", name, count) for name, count in counts.items())
    return Place(groups, {}, link_mbps)


def of_cluster(cluster: Cluster, link_mbps: float | None) -> Place:
    """Return a place of the nodes that have registered, on their slowest link if none is named.

    Nodes of one type are taken for alike: each can do what the least of them can.

    Raises:
        BadInput: none has registered.
    """
    if not cluster.nodes:
        raise BadInput(
            "no node has registered: name some under `nodes`, or run `stepcast node join` on them"
        )
    groups, measured = [], {}
    for node_type in dict.fromkeys(one.report.node_type for one in cluster.nodes):
        theirs = [one.report for one in cluster.nodes if one.report.node_type == node_type]
        least, name = _least([one.available for one in theirs]), f"{node_type}{_NOW}"
        groups.append(
            NodeGroup(
                role="worker",
                node_type=name,
                count=len(theirs),
                cpu_share=least.cores,
                memory_bytes=int(least.memory_bytes) or None,
            )
        )
        measured[name] = {
            DENSE: least.dense_flops,
            DEPTHWISE: least.depthwise_flops,
            MEMORY: least.memory_Bps,
            DISK: least.disk_Bps,
        }
    links = [one.report.link_mbps for one in cluster.nodes if one.report.link_mbps is not None]
    return Place(tuple(groups), measured, link_mbps or min(links, default=None))


def _least(several: Sequence[Capabilities]) -> Capabilities:
    names = Capabilities.model_fields
    return Capabilities(**{name: min(getattr(one, name) for one in several) for name in names})
