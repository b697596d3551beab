"""Probed all-reduces with what is known of their cluster: what bandwidth is learned from (4.2)."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import polars as pl
from pydantic import Field

from warehouse.records import BadInput, Record

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


class Features(NamedTuple):
    """Hardware as a row of features; that of a mix: names joined, and the least of each figure."""

    location: str | None
    device: str | None
    processor: str | None
    devices: float | None
    cores: float | None
    memory_gb: float | None
    rated_gbps: float | None

    @classmethod
    def of(cls, mix: Iterable[Hardware]) -> "Features":
        """Return the features of a cluster of these."""
        known = list(mix)
        return cls(
            _joined(one.location for one in known),
            _joined(one.device for one in known),
            _joined(one.processor for one in known),
            _least(one.devices for one in known),
            _least(one.cores for one in known),
            _least(one.memory_gb for one in known),
            _least(one.rated_gbps for one in known),
        )


def samples(allreduce: pl.DataFrame, clusters: pl.DataFrame) -> pl.DataFrame:
    """Return one row per probed all-reduce: the mean over its ranks.

    Args:
        allreduce: table allreduce, of one library, with `mtu_bytes` on every row.
        clusters: table cluster_node of the same runs.

    Returns:
        run_id, node_types (sorted, joined with `+`), world_size, size_bytes, concurrent, mtu_bytes,
        trial, seconds, bus_bandwidth_Bps.

    Raises:
        BadInput: no rows, several libraries, or rows without cluster, MTU, bandwidth or a second
            rank.
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
    for wrong, what, then in (
        (pl.col("node_types").is_null(), "nodes in table cluster_node", "load its cluster"),
        (pl.col("mtu_bytes").is_null(), "mtu_bytes", "record the links' MTU"),
        (pl.col("world_size") < 2, "at least two ranks", "leave it out"),
        (~(pl.col("bus_bandwidth_Bps") > 0), "a bus bandwidth above 0", "probe again"),
    ):
        bad = joined.filter(wrong)
        if not bad.is_empty():
            raise BadInput(
                f"table allreduce: expected {what} for run {bad['run_id'][0]}, found none; {then}"
            )
    return (
        joined.group_by(*_CONFIGURATION, "trial")
        .agg(pl.col("seconds", "bus_bandwidth_Bps").mean())
        .sort(*_CONFIGURATION, "trial")
    )


def features(node_types: tuple[str, ...], hardware: Mapping[str, Hardware]) -> Features:
    """Return the features of a cluster of these node types.

    Raises:
        BadInput: a node type of which nothing is known.
    """
    missing = [one for one in node_types if one not in hardware]
    if missing:
        raise BadInput(
            f"no hardware of node type {missing[0]!r} is known, only of "
            f"{', '.join(sorted(hardware)) or 'none'}; add it"
        )
    return Features.of(hardware[one] for one in node_types)


def _joined(names: Iterable[str | None]) -> str | None:
    known = sorted({name for name in names if name is not None})
    return "+".join(known) or None


def _least(figures: Iterable[float | None]) -> float | None:
    return min((one for one in figures if one is not None), default=None)
