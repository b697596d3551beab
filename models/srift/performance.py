"""What Srift knows of a network on node types, and the configurations it is asked about."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from models.srift.exchange import Buckets, Transfers, transfers
from models.srift.latency import Latency
from warehouse.records import BadInput, Market, Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class BusBandwidth(Protocol):
    """A model of all-reduce bandwidth (section 4.2)."""

    def table(self, node_types: tuple[str, ...], world_sizes: Ints, size_bytes: Ints) -> Floats:
        """Return bus bandwidth in bytes/s, above 0, as [world sizes, sizes].

        `node_types` are those of a cluster, sorted, each once; a world size counts devices.
        """


class NodeProfile(Record):
    """One network on one node type.

    `devices` is how many accelerators a node has, `max_batch` the largest batch that fits one,
    `ready` when each layer's gradient is there, in parts of the backward pass, `link_Bps` what the
    node's link carries (b_cap).
    """

    devices: int = Field(default=1, ge=1)
    max_batch: int = Field(ge=1)
    latency: Latency
    ready: tuple[float, ...]
    link_Bps: float = Field(gt=0)


@dataclass(frozen=True)
class Performance:
    """Everything the simulator needs to know of one network.

    Attributes:
        layer_bytes: gradients of each layer, in the order in which layers are registered.
        nodes: profile of the network on each node type.
        bandwidth: model of all-reduce bandwidth.
        buckets: PyTorch's bucketing; None: ideal overlap, as the paper.
        probability: with which each layer is executed; None: always.
        streams: how many all-reduces go on at a time (PyTorch: one with NCCL, two with Gloo, unless
            told otherwise); None: any number, as the paper.
        slowdown: by which part of its time the backward pass takes longer while any all-reduce goes
            on, because both use the same processor; 0: not at all, as the paper.
        hindrance: by which part of its time an all-reduce takes longer as long as the backward pass
            goes on, for the same reason; 0: not at all, as the paper.
    """

    layer_bytes: tuple[int, ...]
    nodes: Mapping[str, NodeProfile]
    bandwidth: BusBandwidth
    buckets: Buckets | None = None
    probability: tuple[float, ...] | None = None
    streams: int | None = None
    slowdown: float = 0.0
    hindrance: float = 0.0

    def node(self, node_type: str) -> NodeProfile:
        """Return the profile of a node type.

        Raises:
            BadInput: it has none.
        """
        if node_type not in self.nodes:
            known = ", ".join(sorted(self.nodes)) or "none"
            raise BadInput(
                f"node type {node_type!r} has no compute profile of this network; profiled are "
                f"{known}: profile it, or leave it out"
            )
        return self.nodes[node_type]

    def with_devices(self, devices: int) -> "Performance":
        """Return the same of nodes that have so many devices each."""
        nodes = {
            name: one.model_copy(update={"devices": devices}) for name, one in self.nodes.items()
        }
        return replace(self, nodes=nodes)

    def transfers(self, node_type: str) -> Transfers:
        """Return what is exchanged when nodes of this type become ready last."""
        found = transfers(
            self.layer_bytes, self.node(node_type).ready, self.probability, self.buckets
        )
        # Where either disturbs the other, the end of the pass is one more event, of no bytes.
        return found.with_end() if self.slowdown or self.hindrance else found


class ConfigurationGroup(Record):
    """`count` nodes of one type, each with `batch_size` samples of the global batch.

    Srift's counts[i] and batches[i] (section 4): `batch_size` is of a node, all its devices.
    """

    node_type: str
    market: Market = "on_demand"
    count: int = Field(ge=1)
    batch_size: int = Field(ge=1)


class Configuration(Record):
    """The nodes of a cluster, and how they divide a global batch."""

    groups: tuple[ConfigurationGroup, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_batch_size_each(self) -> "Configuration":
        keys = [(group.node_type, group.market, group.batch_size) for group in self.groups]
        if len(set(keys)) < len(keys):
            raise ValueError("groups repeat a node type, market and batch size; add their counts")
        return self

    @property
    def global_batch(self) -> int:
        """Samples of all nodes."""
        return sum(group.count * group.batch_size for group in self.groups)

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return sum(group.count for group in self.groups)

    @property
    def node_types(self) -> tuple[str, ...]:
        """Node types, sorted, each once."""
        return tuple(sorted({group.node_type for group in self.groups}))

    @property
    def label(self) -> str:
        """As the paper prints it: 4 p3.8xlarge@1024 + 8 g3.8xlarge@128 (section 5.2)."""
        return " + ".join(
            f"{group.count} {group.node_type}@{group.batch_size}" for group in self.groups
        )
