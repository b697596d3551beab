"""Times of collective operations among GPUs, by size and topology: Srift's bandwidth, of NCCL.

Srift (section 4.2) asks a learned model for the bandwidth of a buffer's size on so many workers.
Here a closed form comes first: latencies of NCCL, and bytes over rated links, around a ring of all
GPUs, while nodes reduce within. What that leaves of the logarithms of measured times is a Gaussian
process: operations are alike as far as their sizes, numbers of GPUs, rated bandwidths, collectives
and clusters are. So what one cluster's log tells of it counts for its other sizes, numbers of nodes
and collectives, and little for other clusters.

Sources: Srift, section 4.2; NCCL 2.29, src/graph/tuning.cc (latencies); Rasmussen and Williams,
Gaussian Processes for Machine Learning, equations 2.25 and 2.26.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Literal, Self

import numpy as np
import polars as pl
from pydantic import PlainSerializer, PlainValidator

from models.gpu_step.columns import KeptVector, Vector, covering

Collective = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all"]
_BASE_S = 6.6e-6
_STEP_S = 0.6e-6
"""NCCL's for small messages: once, and for each step of a ring over NVLink."""
_LEVEL_S = 5e-6
"""NCCL's for a small message and each level of a tree of nodes, up or down."""
_LINK_SLOWNESS = 1.3
"""How many times as long bytes take on links of a node as rated; on networks as rated."""
_SOCKETS_BPS = 12.5e9
"""A network below 100 Gb/s is crossed by sockets."""
_NVLINK_BPS = 64e9
"""PCIe has less."""
_BESIDE = 1.3
"""Nodes reduce within partly beside the network: norm in which both times add up (1: no part, as
over sockets, whose bytes hosts move, too)."""
_OCTAVES, _MANY_OCTAVES = 2.5, 6.0
_OF_DEVICES, _OF_NODES = 1.5, 6.0
_OF_LINKS, _OF_NETWORKS = 0.45, 2.2
"""How many doublings of sizes, GPUs, nodes and rated bandwidths make a difference."""
_ALIKE = {False: 0.3, True: 0.03}
"""Variances of what is shared by all, by a kind of links, by a collective; across nodes True."""
_BOTH = 0.03
"""Variance that a collective on a kind of links has for itself."""
_CLUSTERS = {False: (0.4, 0.1), True: (0.5, 0.3)}
"""How far clusters differ, of one source and then of each cluster: of small and large messages."""
_MIDDLE = 20
"""Doublings of a byte from which on intervals are those of large messages."""
_SMALL, _LARGE = 18.0, 24.0
"""Doublings of a byte up to which a message is small, and from which it is large."""
_LEAST_BYTES = 4096.0
"""Smaller messages take as long."""
_NOISE = 0.002
NINE_OF_TEN = 1.645
"""Standard deviations to either side that hold nine of ten."""
_SOME_CLUSTERS = 3
"""That are left out in turn, for intervals to be as wide as these were wrong."""
_KEPT = 4000
"""Answers that are kept: steps of one network ask for the same again and again."""
_LATEST = 16
"""Covariances that are kept: the same is asked as it is, and as slow as one in twenty."""
_ASKED = {
    "collective": pl.String,
    "cluster": pl.String,
    "devices": pl.Int64,
    "nodes": pl.Int64,
    "link_bps": pl.Float64,
    "network_bps": pl.Float64,
    "size_bytes": pl.Float64,
}
_KeptOperations = Annotated[
    pl.DataFrame,
    PlainValidator(lambda columns: pl.DataFrame(columns, _ASKED)),
    PlainSerializer(lambda frame: frame.to_dict(as_series=False)),
]
"""Operations of a fit, which JSON has as columns."""
Operations = Mapping[str, Any]
"""Columns of `_ASKED` as arrays, and `source`, the first word of `cluster`."""
TIMED = _ASKED | {"seconds": pl.Float64}
"""Columns of timed operations: of which cluster (who timed it, then what), and how long."""


@dataclass(frozen=True)
class Topology:
    """GPUs that take part: `devices` on each of `nodes`, and rated bytes/s in each direction.

    `link_bps` is what a GPU sends to the others of its node, `network_bps` what a node sends.
    `cluster`: whose own times count; one that nobody timed is like others.
    """

    devices: int
    nodes: int
    link_bps: float
    network_bps: float
    cluster: str = ""

    @property
    def is_through_host(self) -> bool:
        """Whether bytes go through memory of hosts: over sockets between nodes, or over PCIe."""
        if self.nodes > 1:
            return self.network_bps < _SOCKETS_BPS
        return self.link_bps < _NVLINK_BPS

    @property
    def ranks(self) -> int:
        """All GPUs."""
        return self.devices * self.nodes

    @property
    def source(self) -> str:
        """Who timed its cluster."""
        return self.cluster.partition(" ")[0]


@dataclass(frozen=True)
class _Left:
    """What the closed form leaves of operations within a node, or across nodes.

    That is logarithms of measured over closed form; `weights` are what `timed` ones tell of others.
    """

    timed: _KeptOperations
    weights: KeptVector
    is_across: bool

    @classmethod
    def fitted(cls, timed: pl.DataFrame, closed_s: Vector, *, is_across: bool) -> Self:
        """Return what `TIMED` operations tell, of which the closed form says so many seconds."""
        left = np.log(timed["seconds"].to_numpy() / closed_s)
        unweighted = cls(timed.select(*_ASKED), np.zeros(len(left)), is_across)
        weights: Vector = np.linalg.solve(unweighted._known, left).astype(np.float64)
        return replace(unweighted, weights=weights)

    def of(self, asked: Operations, deviations: float | Vector = 0.0) -> Vector:
        """Return what is left of others, so many standard deviations above its mean."""
        differs = self._differs(asked)
        prior = 5 * _ALIKE[self.is_across] + _BOTH + 2 * differs**2
        if not len(self.timed):
            return deviations * np.sqrt(prior)
        key = tuple(column.tobytes() for column in asked.values())
        if (shared := self._latest.get(key)) is None:  # another thread may clear what is kept
            if len(self._latest) >= _LATEST:
                self._latest.clear()
            shared = self._latest[key] = self._covariance(asked, self._operations)
        mean: Vector = shared @ self.weights
        if not np.any(deviations):
            return mean
        known = self._whitening @ shared.T
        unknown: Vector = np.sqrt(np.maximum(prior - (known**2).sum(axis=0), 0.0))
        return mean + deviations * unknown

    @cached_property
    def _latest(self) -> dict[tuple[bytes, ...], Vector]:
        return {}

    @cached_property
    def _operations(self) -> Operations:
        return _columns(self.timed)

    @cached_property
    def _known(self) -> Vector:
        """The covariance of what was timed."""
        both = self._operations
        return self._covariance(both, both) + _NOISE * np.eye(len(self.timed))

    @cached_property
    def _whitening(self) -> Vector:
        """The inverse of its root: scipy, which solves triangles, takes longer to import."""
        inverse: Vector = np.linalg.inv(np.linalg.cholesky(self._known))
        return inverse

    def missed(self) -> Vector:
        """Return by how many standard deviations others miss each time of a cluster left out.

        Source: Rasmussen and Williams, section 5.4.2, of groups in place of single cases.
        """
        inverse = np.linalg.inv(self._known)
        clusters, missed = self._operations["cluster"], np.zeros(len(self.timed))
        for cluster in np.unique(clusters):
            at = np.flatnonzero(clusters == cluster)
            covariance = np.linalg.inv(inverse[np.ix_(at, at)])
            unknown = np.maximum(np.diag(covariance) - _NOISE, _NOISE)
            missed[at] = np.abs(covariance @ self.weights[at]) / np.sqrt(unknown)
        return missed

    def _differs(self, operations: Operations) -> Vector:
        """Return how far clusters differ in operations of such sizes."""
        small, large = _CLUSTERS[self.is_across]
        grown = (_log2(operations, "size_bytes") - _SMALL) / (_LARGE - _SMALL)
        differs: Vector = small + (large - small) * np.clip(grown, 0.0, 1.0)
        return differs

    def _covariance(self, some: Operations, others: Operations) -> Vector:
        """Return [some, others]."""

        def near(name: str, scale: float) -> Vector:
            apart = _log2(some, name)[:, None] - _log2(others, name)
            alike: Vector = np.exp(-((apart / scale) ** 2) / 2)
            return alike

        def same(name: str) -> Vector:
            alike: Vector = 1.0 * (some[name][:, None] == others[name])
            return alike

        topology = near("devices", _OF_DEVICES) * near("nodes", _OF_NODES)
        fine, coarse = near("size_bytes", _OCTAVES), near("size_bytes", _MANY_OCTAVES)
        rate = ("network_bps", _OF_NETWORKS) if self.is_across else ("link_bps", _OF_LINKS)
        kind, collective = near(*rate), same("collective")
        differs = self._differs(some)[:, None] * self._differs(others)
        shared: Vector = topology * (
            _ALIKE[self.is_across] * (coarse + fine * (1.0 + kind + collective))
            + _BOTH * fine * kind * collective
            + differs * coarse * (same("cluster") + same("source"))
        )
        return shared + _ALIKE[self.is_across]


@dataclass(frozen=True)
class Collectives:
    """Times of collectives: closed forms, and what these leave of operations that were timed.

    `deviations`: so many standard deviations of what is not known are they slower. `widths`: by
    what these are multiplied on clusters that nobody timed (`with_widths`).
    """

    within: _Left
    across: _Left
    widths: Mapping[str, float] = field(default_factory=dict)
    deviations: float = 0.0

    def with_widths(self) -> Self:
        """Return the same with widths of intervals, which take longer than the fit."""
        return replace(self, widths=_fitted_widths([self.within, self.across]))

    @cached_property
    def _asked(self) -> dict[tuple[Any, ...], Vector]:
        return {}

    def seconds(self, collective: Collective, sizes_bytes: Vector, topology: Topology) -> Vector:
        """Return seconds of operations, each of the bytes of its whole buffer.

        Of an all-gather that is what every GPU has in the end, of a reduce-scatter what it had
        before.
        """
        if topology.ranks == 1:
            return np.zeros(len(sizes_bytes))
        key = collective, sizes_bytes.tobytes(), topology
        if (seconds := self._asked.get(key)) is None:  # another thread may clear what is kept
            if len(self._asked) >= _KEPT:
                self._asked.clear()
            distinct, place = np.unique(sizes_bytes, return_inverse=True)
            seconds = self._asked[key] = self._seconds(collective, distinct, topology)[place]
        return seconds

    def _seconds(self, collective: Collective, sizes_bytes: Vector, topology: Topology) -> Vector:
        alike = vars(topology) | {"collective": collective, "source": topology.source}
        asked = {name: np.array([value]) for name, value in alike.items()}
        asked["size_bytes"] = sizes_bytes
        deviations: float | Vector = self.deviations
        if deviations:
            deviations = deviations * self._widths(collective, sizes_bytes, topology)
        if topology.nodes == 1:
            closed_s, left = _ring_s(asked), self.within.of(asked, deviations)
        else:
            closed_s = _across_s(asked, _alone_s(asked, self.within))
            left = self.across.of(asked, deviations)
        seconds: Vector = closed_s * np.exp(left)
        return seconds

    def _widths(self, collective: str, sizes_bytes: Vector, topology: Topology) -> Vector:
        part = self.across if topology.nodes > 1 else self.within
        if topology.cluster in set(part.timed["cluster"]):
            return np.ones(len(sizes_bytes))
        small, large = (self.widths.get(_kind(collective, each), 1.0) for each in (False, True))
        widths: Vector = np.where(sizes_bytes >= 2**_MIDDLE, large, small)
        return widths


def fit(rows: pl.DataFrame) -> Collectives:
    """Return what `TIMED` operations tell; `size_bytes` are those of the whole buffer."""
    is_across = pl.col("nodes") > 1
    inside, outside = rows.filter(~is_across), rows.filter(is_across)
    within = _Left.fitted(inside, _ring_s(_columns(inside)), is_across=False)
    asked = _columns(outside)
    across_s = _across_s(asked, _alone_s(asked, within))
    across = _Left.fitted(outside, across_s, is_across=True)
    return Collectives(within, across)


def _fitted_widths(parts: Iterable[_Left]) -> Mapping[str, float]:
    """Return how many times as wide intervals hold nine of ten times of clusters left out."""
    timed = [part.timed.with_columns(missed=part.missed()) for part in parts if len(part.timed)]
    if not timed:
        return {}
    widths, is_large = {}, pl.col("size_bytes") >= 2**_MIDDLE
    for (collective, large), group in pl.concat(timed).group_by("collective", is_large):
        if group["cluster"].n_unique() >= _SOME_CLUSTERS:
            width = covering(group["missed"]) / NINE_OF_TEN
            widths[_kind(str(collective), bool(large))] = width
    return widths


def _kind(collective: str, is_large: bool) -> str:
    return f"{collective}, {'large' if is_large else 'small'}"


def _columns(operations: pl.DataFrame) -> Operations:
    source = pl.col("cluster").str.split(" ").list.first()
    return {
        column.name: column.to_numpy().astype(str if column.dtype == pl.String else float)
        for column in operations.select(*_ASKED, source=source)
    }


def _ring_s(operations: Operations) -> Vector:
    """Return the closed form of a ring over the links of a node."""
    devices, size_bytes = operations["devices"], operations["size_bytes"]
    bytes_s = (devices - 1) / devices * size_bytes / operations["link_bps"]
    ring_s = _STEP_S * (devices - 1) + _LINK_SLOWNESS * bytes_s
    seconds: Vector = _BASE_S + _ways(operations) * ring_s
    return seconds


def _alone_s(operations: Operations, within: _Left) -> Vector:
    """Return what is forecast of each node by itself, of operations across nodes."""
    nodes = operations["nodes"]  # however many there are, each takes as long by itself
    alone = {**operations, "nodes": np.ones_like(nodes), "network_bps": np.zeros(len(nodes))}
    seconds: Vector = np.where(
        operations["devices"] > 1, _ring_s(alone) * np.exp(within.of(alone)), 0.0
    )
    return seconds


def _across_s(operations: Operations, within_s: Vector) -> Vector:
    """Return the closed form across nodes, each of which takes so many seconds by itself."""
    devices, nodes, size_bytes, network_bps = (
        operations[name] for name in ("devices", "nodes", "size_bytes", "network_bps")
    )
    ring = devices * nodes
    # Of other collectives, GPUs of a node send the network parts of one buffer, not one each.
    buffers = np.where(operations["collective"] == "all_to_all", devices, 1)
    network_s = _ways(operations) * (ring - 1) / ring * buffers * size_bytes / network_bps
    norm = np.where(network_bps < _SOCKETS_BPS, 1.0, _BESIDE)
    both_s = (within_s**norm + network_s**norm) ** (1 / norm)
    seconds: Vector = _ways(operations) * np.log2(nodes) * _LEVEL_S + both_s
    return seconds


def _ways(operations: Operations) -> Vector:
    """Return how often bytes go around: an all-reduce scatters and then gathers."""
    ways: Vector = 1.0 + (operations["collective"] == "all_reduce")
    return ways


def _log2(operations: Operations, name: str) -> Vector:
    least = _LEAST_BYTES if name == "size_bytes" else 1.0
    doublings: Vector = np.log2(np.maximum(operations[name], least))
    return doublings
