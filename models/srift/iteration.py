"""SIM of section 4.3: how long one iteration takes, the slowest of many nodes included.

It takes what is known of nodes and links (`Performance`), and which nodes train what of a batch
(`Configuration`).
"""

from collections.abc import Mapping
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from models.srift.allreduce import LearnedBandwidth, SpeedBandwidth
from models.srift.allreduce_samples import AlphaBeta
from models.srift.exchange import (
    Buckets,
    Transfers,
    exchange_s,
    power_of_two,
    transfers,
    wire_factor,
)
from models.srift.latency import Latency
from warehouse.records import BadInput, Market, Record

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


MEASURE = "list it in a study and `stepcast run STUDY.yaml`"


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


class Performance(Record):
    """Everything the simulator needs to know of one network; `stepcast train` reads it as JSON.

    Attributes:
        layer_bytes: gradients of each layer, in the order in which layers are registered.
        nodes: profile of the network on each node type.
        bandwidth: model of all-reduce bandwidth (section 4.2): its `table` of node types of a
            cluster, sorted, each once, and world sizes, in devices.
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
    bandwidth: LearnedBandwidth | AlphaBeta | SpeedBandwidth
    buckets: Buckets | None = None
    probability: tuple[float, ...] | None = None
    streams: int | None = Field(default=None, ge=1)
    slowdown: float = Field(default=0.0, ge=0)
    hindrance: float = Field(default=0.0, ge=0)

    def node(self, node_type: str) -> NodeProfile:
        """Return the profile of a node type.

        Raises:
            BadInput: it has none.
        """
        if node_type not in self.nodes:
            known = ", ".join(sorted(self.nodes)) or "none"
            raise BadInput(
                f"node type {node_type!r} has no compute profile of this network; profiled are "
                f"{known}: {MEASURE}, or leave it out"
            )
        return self.nodes[node_type]

    def with_devices(self, devices: int) -> "Performance":
        """Return the same of nodes that have so many devices each."""
        nodes = {
            name: node.model_copy(update={"devices": devices}) for name, node in self.nodes.items()
        }
        return self.model_copy(update={"nodes": nodes})

    def transfers(self, node_type: str) -> Transfers:
        """Return what is exchanged when nodes of this type become ready last."""
        exchanged = transfers(
            self.layer_bytes, self.node(node_type).ready, self.probability, self.buckets
        )
        # Where either disturbs the other, the end of the pass is one more event, of no bytes.
        return exchanged.with_end() if self.slowdown or self.hindrance else exchanged


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


def step_time_s(performance: Performance, configuration: Configuration) -> float:
    """Return the seconds of an iteration: t_fw + max(t_bw, t_pe), and the update.

    The slowest node type's passes are stretched so that together they take what the slowest of all
    nodes is expected to take.

    Source: section 4.3.

    Raises:
        BadInput: a node type without profile, or a batch that does not fit a device.
    """
    parts = [_parts(performance, group) for group in configuration.groups]
    profiles = [(performance.node(group.node_type), group) for group in configuration.groups]
    means = np.array([sum(part) for part in parts])
    scales = [of.latency.scale(ceil(group.batch_size / of.devices)) for of, group in profiles]
    counts = np.array([group.count for group in configuration.groups])
    (compute_s,) = expected_maximum(means[None], (means * np.array(scales))[None], counts[None])
    slowest = int(means.argmax())
    forward_s, backward_s, update_s = (
        part * float(compute_s / means[slowest]) for part in parts[slowest]
    )
    node_type = configuration.groups[slowest].node_type
    ends_s = _exchange_s(performance, configuration, node_type, backward_s)
    return forward_s + max(backward_s, ends_s) + update_s


def _exchange_s(
    performance: Performance, configuration: Configuration, slowest: str, backward_s: float
) -> float:
    ranks = sum(
        group.count * performance.node(group.node_type).devices for group in configuration.groups
    )
    todo = performance.transfers(slowest)
    if ranks == 1 or not len(todo.size_bytes):
        return 0.0
    bus_Bps = performance.bandwidth.table(
        configuration.node_types, np.array([ranks]), power_of_two(todo.size_bytes)
    )
    # The link of a single node carries nothing.
    cap_Bps = (
        min(performance.node(node_type).link_Bps for node_type in configuration.node_types)
        if configuration.nodes > 1
        else inf
    )
    (ends_s,) = exchange_s(
        todo.ready[None] * backward_s,
        todo.expected_bytes[None] * wire_factor(ranks),
        bus_Bps,
        np.array([cap_Bps]),
        performance.streams,
        performance.slowdown,
        performance.hindrance,
    )
    return float(ends_s)


def check_fits(node_type: str, batch_size: int, devices: int, max_batch: int) -> None:
    """Refuse a node's batch whose part for a device is larger than the largest known to fit one.

    Raises:
        BadInput: it is; naming the node type.
    """
    per_device = ceil(batch_size / devices)
    if per_device > max_batch:
        raise BadInput(
            f"{node_type}: a batch of {batch_size} is {per_device} for each of {devices} "
            f"device(s), which hold {max_batch}; use a smaller batch, or profile larger ones"
        )


def _parts(performance: Performance, group: ConfigurationGroup) -> tuple[float, float, float]:
    """Return forward, backward and update of a node's fullest device, seconds."""
    profile = performance.node(group.node_type)
    per_device = ceil(group.batch_size / profile.devices)
    check_fits(group.node_type, group.batch_size, profile.devices, profile.max_batch)
    latency = profile.latency
    return float(latency.forward(per_device)), float(latency.backward(per_device)), latency.update_s


# The slowest of many nodes: what synchronous training waits for (section 4.3).


_PIECES = np.arange(-9.0, 10.0, 3.0)
"""Ends of the pieces that are integrated one by one, in standard deviations of a group."""
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def expected_maximum(means: Floats, deviations: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the expected maximum of independent normal samples, one row at a time.

    In each row, `counts[g]` samples have the mean and the standard deviation of group g. Section
    4.3 draws `iters` iterations and averages their maxima; this is what that tends to, the integral
    of 1 − Π F_g(x)^counts[g], and has no noise that a search could mistake for a better choice.

    Args:
        means: [rows, groups], whatever where a count is 0.
        deviations: [rows, groups], may be 0.
        counts: [rows, groups], at least one above 0 in each row.

    Returns:
        [rows]
    """
    from scipy.special import (
        ndtr,  # a fifth of a second, which whoever reads forecasts need not wait
    )

    used = counts > 0
    mean = np.where(used, means, -np.inf).max(axis=1)
    # Relative to the largest mean, so that rounding does not grow with it.
    shift = np.where(used, means - mean[:, None], 0.0)
    spread = np.where(used, deviations, 0.0)
    low = np.where(used, shift + _PIECES[0] * spread, -np.inf).max(axis=1, keepdims=True)
    # A group's distribution rises between its own ends only: no piece holds a step inside.
    ends = (shift[:, :, None] + _PIECES * spread[:, :, None]).reshape(
        len(means), means.shape[1] * len(_PIECES)
    )
    edges = np.sort(np.maximum(ends, low))
    middle, half = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    x = middle[:, :, None] + half[:, :, None] * _POINTS
    below = np.ones_like(x)
    for group in range(means.shape[1]):
        z = x - shift[:, group, None, None]
        scale = spread[:, group, None, None]
        with np.errstate(over="ignore"):
            cdf = np.where(scale > 0, ndtr(z / np.where(scale > 0, scale, 1.0)), z >= 0)
        below *= cdf ** counts[:, group, None, None]
    area = ((1.0 - below) * _WEIGHTS).sum(axis=2) * half
    # Below `low` the largest is certain to lie above: 1 − F is 1 there.
    expected: Floats = mean + low[:, 0] + area.sum(axis=1)
    return expected
