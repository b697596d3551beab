"""Probed all-reduces: what bandwidth is learned from (4.2), and the formula beside it (α–β)."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from warehouse.records import BadInput, Record

NAMES = ("location", "device", "processor")
FIGURES = ("devices", "cores", "memory_gb", "rated_gbps")
"""Fields of `Hardware`."""
_CONFIGURATION = ("run_id", "node_types", "world_size", "size_bytes", "concurrent", "mtu_bytes")


class Hardware(Record):
    """The features of a node type that section 4.2 picked by hand; None: not known.

    `location` is provider, region and zone; `rated_gbps` what the provider prints.
    """

    location: str | None = None
    device: str | None = None
    processor: str | None = None
    devices: int = Field(default=1, ge=1)
    cores: float | None = Field(default=None, gt=0)
    memory_gb: float | None = Field(default=None, gt=0)
    rated_gbps: float | None = Field(default=None, gt=0)


def samples(allreduce: pl.DataFrame, clusters: pl.DataFrame) -> pl.DataFrame:
    """Return one row per probed all-reduce: the mean over its ranks.

    Args:
        allreduce: table allreduce, of one library, with `mtu_bytes` on every row.
        clusters: table cluster_node of the same runs.

    Returns:
        run_id, node_types (sorted, joined with `+`), world_size, size_bytes, concurrent, mtu_bytes,
        trial, seconds, bus_bandwidth_Bps.

    Raises:
        BadInput: no rows, several libraries, or rows without MTU.
    """
    libraries = allreduce["library"].unique().sort().to_list()
    if len(libraries) != 1:
        raise BadInput(
            f"table allreduce: expected rows of one library, found {', '.join(libraries) or 'none'}"
            "; fit each library for itself"
        )
    mixes = clusters.group_by("run_id").agg(
        pl.col("node_type").unique().sort().str.join("+").alias("node_types")
    )
    joined = allreduce.join(mixes, on="run_id", how="left")
    bad = joined.filter(pl.col("mtu_bytes").is_null())
    if not bad.is_empty():
        raise BadInput(
            f"table allreduce: expected mtu_bytes for run {bad['run_id'][0]}, found none; record "
            "the links' MTU"
        )
    return (
        joined.group_by(*_CONFIGURATION, "trial")
        .agg(pl.col("seconds", "bus_bandwidth_Bps").mean())
        .sort(*_CONFIGURATION, "trial")
    )


def features(node_types: tuple[str, ...], hardware: Mapping[str, Hardware]) -> Hardware:
    """Return the features of a cluster of these: names joined, and the least of each figure."""
    of_mix: dict[str, Any] = {}
    for name in Hardware.model_fields:
        known = {getattr(hardware[node_type], name) for node_type in node_types} - {None}
        if known:
            of_mix[name] = "+".join(sorted(known)) if name in NAMES else min(known)
    return Hardware(**of_mix)


# All-reduce bandwidth by a formula: latency and bandwidth (α–β).


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
T = TypeVar("T")


Shape = Literal["ring", "tree"]


class Line(Record):
    """Of one kind of cluster: seconds per hop, bytes/s of its slowest link, and what hops form."""

    hop_s: float = Field(ge=0)
    link_Bps: float = Field(gt=0)
    shape: Shape = "ring"


class AlphaBeta(Record):
    """An all-reduce of n ranks takes α for each hop and 2s(n − 1)/n at the link's speed.

    A ring has 2(n − 1) hops one after the other, a tree 2⌈log₂ n⌉.

    `lines` are by node type, or by those of a mix joined with `+`; another mix goes by the slowest
    of its members.

    Source: ring all-reduce, Thakur et al. (2005), which section 4.2 replaces by a learned model.
    """

    lines: Mapping[str, Line]

    def table(self, node_types: tuple[str, ...], world_sizes: Ints, size_bytes: Ints) -> Floats:
        """Return bus bandwidth in bytes/s, [world sizes, sizes].

        Raises:
            BadInput: a node type that was not fitted.
        """
        return self.bus_Bps(
            node_types,
            np.asarray(world_sizes, dtype=np.float64)[:, None],
            np.asarray(size_bytes, dtype=np.float64),
        )

    def bus_Bps(self, node_types: tuple[str, ...], n: Floats, size_bytes: Floats) -> Floats:
        """Return bus bandwidth in bytes/s of n ranks with buffers of a size, of any shape."""
        lines = _of(self.lines, node_types)
        link_Bps = min(line.link_Bps for line in lines)
        wire_bytes = 2 * size_bytes * (n - 1) / n
        latency_s = np.max([hops(n, line.shape) * line.hop_s for line in lines], axis=0)
        seconds = latency_s + wire_bytes / link_Bps
        bus: Floats = np.divide(
            wire_bytes, seconds, out=np.full(seconds.shape, link_Bps), where=seconds > 0
        )
        return bus

    def of_rows(self, rows: pl.DataFrame) -> Floats:
        """Return bus bandwidth in bytes/s of each row of `samples`, as if it was alone."""
        bandwidth_Bps = np.zeros(rows.height)
        n, size = (
            rows[name].to_numpy().astype(np.float64) for name in ("world_size", "size_bytes")
        )
        for mix in rows["node_types"].unique():
            of_mix = (rows["node_types"] == mix).to_numpy()
            bandwidth_Bps[of_mix] = self.bus_Bps(tuple(mix.split("+")), n[of_mix], size[of_mix])
        return bandwidth_Bps


def _of(known: Mapping[str, T], node_types: tuple[str, ...]) -> list[T]:
    """Return what is known of the mix, else of each of its members."""
    mix = "+".join(node_types)
    if mix in known:
        return [known[mix]]
    missing = [node_type for node_type in node_types if node_type not in known]
    if missing:
        raise BadInput(
            f"no all-reduce bandwidth of {', '.join(missing)}; known are "
            f"{', '.join(sorted(known)) or 'none'}: probe it first"
        )
    return [known[node_type] for node_type in node_types]


def fit_alpha_beta(allreduce: pl.DataFrame, clusters: pl.DataFrame) -> AlphaBeta:
    """Fit α and β of each mix of node types by least squares of relative errors of times.

    Of a ring and a tree, that with less error is kept.

    Args:
        allreduce: table allreduce of one library; those that were alone count.
        clusters: table cluster_node of the same runs.

    Raises:
        BadInput: as `samples`, or no all-reduce was alone.
    """
    return fit_lines(samples(allreduce, clusters))


def fit_lines(rows: pl.DataFrame, mixes: Iterable[str] = ()) -> AlphaBeta:
    """Fit to rows of `samples`, of each mix; `mixes` that have none get the line of all together.

    Raises:
        BadInput: no all-reduce was alone.
    """
    alone = rows.filter(pl.col("concurrent") == 1)
    if alone.is_empty():
        raise BadInput("no all-reduce was alone: probe with one transfer at a time")
    parts = alone.group_by("node_types", maintain_order=True)
    lines = {str(mix): _line(part) for (mix,), part in parts}
    missing = set(mixes) - set(lines)
    return AlphaBeta(lines=lines | dict.fromkeys(missing, _line(alone)) if missing else lines)


def _line(rows: pl.DataFrame) -> Line:
    from scipy.optimize import nnls  # half a second, which only fits need

    n, size = rows["world_size"].to_numpy().astype(np.float64), rows["size_bytes"].to_numpy()
    seconds, wire_bytes = rows["seconds"].to_numpy(), 2 * size * (n - 1) / n
    # Without buffers large enough to tell, the link is at least as fast as the fastest one was.
    fastest_Bps = float((wire_bytes / seconds).max())
    fits: list[tuple[float, Line]] = []
    for shape in get_args(Shape):
        terms = np.stack([hops(n, shape), wire_bytes], axis=1)
        (hop_s, s_per_byte), error = nnls(terms / seconds[:, None], np.ones(len(seconds)))
        speed_Bps = 1 / s_per_byte if s_per_byte > 0 else fastest_Bps
        fits.append((error, Line(hop_s=float(hop_s), link_Bps=speed_Bps, shape=shape)))
    return min(fits, key=lambda fit: fit[0])[1]


def hops(world_sizes: Floats, shape: Shape) -> Floats:
    """Return how many messages follow one another in a ring or a tree of so many ranks."""
    return 2 * (world_sizes - 1) if shape == "ring" else 2 * np.ceil(np.log2(world_sizes))
