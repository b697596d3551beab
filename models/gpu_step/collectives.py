"""Times of collective operations among GPUs, by size and topology: Srift's bandwidth, of NCCL.

Srift (section 4.2) asks a learned model for the bandwidth of a buffer's size on so many workers.
Here the model has the form of NCCL's own: small messages go through all levels of a tree at once
and cost their latency (protocol LL); large ones move chunk by chunk around a ring or a tree and
cost their bytes over the bandwidth of the slowest link (protocol Simple). Constants are fitted for
each cluster, held to those of all clusters, and these to what is expected.

Sources: Srift, section 4.2; NCCL 2.29, src/graph/tuning.cc (steps of algorithms, latencies).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_CONSTANTS = (
    "small_us",
    "small_level_us",
    "small_us_per_mb",
    "large_us",
    "large_level_us",
    "ring_step_us",
    "link_slowness",
    "network_slowness",
)
"""Of a cluster: microseconds of a small message, more for each level of the tree of nodes and for
each megabyte; the same of large ones, more for each step of the ring between nodes; and how many
times as long as at rated bandwidth bytes take on links of a node, and on the network."""
_EXPECTED = np.log([6.8, 5.0, 1000.0, 100.0, 150.0, 14.0, 1.3, 1.3])
"""Before anything was timed: NCCL's for networks, but for megabytes of small messages, and for what
large ones cost on a tree, which takes far longer than NCCL's 14 us a level: ours."""
_STEP_WITHIN_US = 3.4
"""NCCL's, of a step of the ring over NVLink."""
_SMALL_BYTES = 71e3
"""On one node; NCCL changes protocol later the more nodes there are: about with their root."""
_ROOTS = 0.5
"""Large messages fill the levels of a tree one after the other, so more levels cost less each."""


@dataclass(frozen=True)
class Topology:
    """GPUs that take part: `devices` on each of `nodes`, and rated bytes/s in each direction.

    `link_bps` is what a GPU sends to the others of its node, `network_bps` what a node sends.
    """

    devices: int
    nodes: int
    link_bps: float
    network_bps: float

    @property
    def ranks(self) -> int:
        """All GPUs."""
        return self.devices * self.nodes


@dataclass(frozen=True)
class Collectives:
    """Constants (logarithms) of clusters in general, and of each that was measured."""

    usual: tuple[float, ...]
    clusters: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    def all_reduce_s(self, sizes_bytes: Vector, topology: Topology, cluster: str = "") -> Vector:
        """Return seconds of all-reduces, each of its bytes; an unknown cluster is a usual one."""
        if topology.ranks == 1:
            return np.zeros(len(sizes_bytes))
        constants = np.array([self.clusters.get(cluster, self.usual)])
        return _us(constants, sizes_bytes, *_arrays([topology])) * 1e-6

    def all_gather_s(self, sizes_bytes: Vector, topology: Topology, cluster: str = "") -> Vector:
        """Return seconds until every GPU has all bytes, of which each has its part.

        It is half of an all-reduce: one way around the ring instead of two. So is a reduce-scatter,
        which moves the same backwards; nobody measured one in public files.
        """
        return self.all_reduce_s(sizes_bytes, topology, cluster) / 2

    def fields(self) -> dict[str, Any]:
        """Return the fit for JSON."""
        return {
            "usual": list(self.usual),
            "clusters": {k: list(v) for k, v in self.clusters.items()},
        }

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return the fit of JSON."""
        clusters = {name: tuple(constants) for name, constants in fields["clusters"].items()}
        return cls(tuple(fields["usual"]), clusters)


def fit(rows: pl.DataFrame) -> Collectives:
    """Fit constants to all-reduces that were timed: least squares of logarithms, little outliers.

    Args:
        rows: cluster, devices, nodes, link_bps, network_bps, size_bytes and seconds.
    """
    usual = tuple(map(float, _EXPECTED))
    if rows.is_empty():
        return Collectives(usual)
    seen = rows.group_by(
        "cluster", "devices", "nodes", "link_bps", "network_bps", "size_bytes"
    ).agg(us=(pl.col("seconds").log().mean().exp() * 1e6))
    seen = seen.sort("cluster", "nodes", "devices", "size_bytes")
    names = sorted(set(seen["cluster"]))
    place = np.array([names.index(name) for name in seen["cluster"]])
    sizes, log_us = seen["size_bytes"].to_numpy().astype(float), np.log(seen["us"].to_numpy())
    topologies = [
        Topology(**row)
        for row in seen.select("devices", "nodes", "link_bps", "network_bps").to_dicts()
    ]
    arrays, count = _arrays(topologies), len(_CONSTANTS)

    def errors(values: Vector) -> Vector:
        all_clusters, own = values[:count], values[count:].reshape(len(names), count)
        missed = np.log(_us((all_clusters + own)[place], sizes, *arrays)) - log_us
        return np.concatenate([missed, own.ravel(), all_clusters - _EXPECTED])

    start = np.concatenate([_EXPECTED, np.zeros(len(names) * count)])
    constants = scipy.optimize.least_squares(
        errors, start, loss="soft_l1", f_scale=0.3, max_nfev=60
    ).x
    all_clusters, own = constants[:count], constants[count:].reshape(len(names), count)
    return Collectives(
        tuple(map(float, all_clusters)),
        {name: tuple(map(float, all_clusters + own[i])) for i, name in enumerate(names)},
    )


def _arrays(topologies: list[Topology]) -> tuple[Vector, Vector, Vector, Vector]:
    """Return GPUs of a node, nodes, and seconds of a byte on links and on the network."""
    devices = np.array([topology.devices for topology in topologies], float)
    nodes = np.array([topology.nodes for topology in topologies], float)
    link_s = np.array(
        [1 / topology.link_bps if topology.devices > 1 else 0.0 for topology in topologies]
    )
    network_s = np.array(
        [1 / topology.network_bps if topology.nodes > 1 else 0.0 for topology in topologies]
    )
    return devices, nodes, link_s, network_s


def _us(
    constants: Vector,
    size_bytes: Vector,
    devices: Vector,
    nodes: Vector,
    link_s: Vector,
    network_s: Vector,
) -> Vector:
    """Return microseconds of all-reduces, each by its row of constants."""
    small, level, per_mb, large, large_level, step, link, network = np.exp(constants).T
    levels = 2 * np.log2(nodes)  # up the tree and down
    ranks = devices * nodes
    within = 2 * (devices - 1) * _STEP_WITHIN_US
    byte_s = np.maximum(link * link_s, network * network_s)  # of the ring's slowest link
    bytes_us = 2 * (ranks - 1) / ranks * size_bytes * byte_s * 1e6
    as_small = (
        small + level * levels + per_mb * size_bytes / 1e6 * np.maximum(levels / 2, 1) ** _ROOTS
    )
    tree, ring = large_level * levels**_ROOTS, step * 2 * (nodes - 1)
    as_large = large + within + np.minimum(tree, ring) + bytes_us
    is_small = size_bytes <= _SMALL_BYTES * np.sqrt(nodes)
    us: Vector = np.where(is_small, as_small, as_large)
    return us
