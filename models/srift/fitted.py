"""Everything fitted to one network, as one record: from tables to `Performance`."""

from collections.abc import Mapping
from typing import NamedTuple

import polars as pl
from pydantic import Field

from models.srift import gradients, latency
from models.srift.allreduce import LearnedBandwidth
from models.srift.baselines import AlphaBeta, Rated
from models.srift.exchange import Buckets
from models.srift.performance import NodeProfile, Performance
from warehouse.records import BadInput, Record


class Tables(NamedTuple):
    """What was probed of one network on one node type, as raw tables, and its number of devices.

    `max_batch` is the largest batch that was found to fit, None: not searched.
    """

    compute: pl.DataFrame
    layers: pl.DataFrame
    layer_times: pl.DataFrame
    links: pl.DataFrame
    devices: int = 1
    max_batch: int | None = None


class NetworkProfile(Record):
    """A network's layers, and its profile on each node type."""

    layer_bytes: tuple[int, ...]
    probability: tuple[float, ...]
    nodes: Mapping[str, NodeProfile]


class FittedNetwork(NetworkProfile):
    """Srift's models of one network; `performance` is what simulator and optimiser take."""

    bandwidth: LearnedBandwidth | AlphaBeta | Rated
    buckets: Buckets | None = None
    streams: int | None = Field(default=None, ge=1)
    slowdown: float = Field(default=0.0, ge=0)
    hindrance: float = Field(default=0.0, ge=0)

    @property
    def performance(self) -> Performance:
        """The same, as the simulator takes it."""
        return Performance(
            layer_bytes=self.layer_bytes,
            nodes=self.nodes,
            bandwidth=self.bandwidth,
            buckets=self.buckets,
            probability=self.probability,
            streams=self.streams,
            slowdown=self.slowdown,
            hindrance=self.hindrance,
        )


def fit(
    tables: Mapping[str, Tables],
    bandwidth: LearnedBandwidth | AlphaBeta | Rated,
    buckets: Buckets | None = None,
    streams: int | None = None,
    slowdown: float = 0.0,
    hindrance: float = 0.0,
) -> FittedNetwork:
    """Fit to what was probed of one network on each node type.

    Args:
        tables: by node type.
        bandwidth: the fitted model of all-reduces.
        buckets: PyTorch's buckets; None: ideal overlap.
        streams: how many all-reduces go on at a time; None: any number.
        slowdown: of the backward pass while any all-reduce goes on.
        hindrance: of all-reduces as long as the backward pass goes on.

    Raises:
        BadInput: as `profile`.
    """
    found = profile(tables)
    return FittedNetwork(
        layer_bytes=found.layer_bytes,
        probability=found.probability,
        nodes=found.nodes,
        bandwidth=bandwidth,
        buckets=buckets,
        streams=streams,
        slowdown=slowdown,
        hindrance=hindrance,
    )


def profile(tables: Mapping[str, Tables]) -> NetworkProfile:
    """Return the profile of one network on each node type.

    Where it was not searched, the largest batch that was profiled is taken for the largest that
    fits. Layers count as often executed as they are in the mean over node types.

    Raises:
        BadInput: no node types, other layers on one of them, or as the fits of tables.
    """
    if not tables:
        raise BadInput("no node type has a profile of this network: profile at least one")
    found = {name: gradients.fit(one.layers, one.layer_times) for name, one in tables.items()}
    first, *others = found
    for name in others:
        if found[name].layer_bytes != found[first].layer_bytes:
            raise BadInput(
                f"{name} and {first} profiled networks of other layers: expected the same "
                f"gradients; profile the same network on both"
            )
    chances = [one.probability for one in found.values()]
    return NetworkProfile(
        layer_bytes=found[first].layer_bytes,
        probability=tuple(sum(each) / len(each) for each in zip(*chances, strict=True)),
        nodes={name: _node(one, found[name]) for name, one in tables.items()},
    )


def link_Bps(links: pl.DataFrame) -> float:
    """Return b_cap from table link: the most that simultaneous flows carried, in the mean.

    Of the two directions the slower one counts.

    Raises:
        BadInput: no rows.
    """
    if links.is_empty():
        raise BadInput("table link: expected flows of this node type, found none; probe its link")
    together = links.group_by("run_id", "direction", "flows", "trial").agg(
        pl.col("bandwidth_Bps").sum()
    )
    mean = together.group_by("direction", "flows").agg(pl.col("bandwidth_Bps").mean())
    most = mean.group_by("direction").agg(pl.col("bandwidth_Bps").max())
    return float(most["bandwidth_Bps"].to_numpy().min())


def _node(tables: Tables, found: gradients.Gradients) -> NodeProfile:
    last = max(found.ready)
    return NodeProfile(
        devices=tables.devices,
        max_batch=tables.max_batch or int(tables.compute["batch_size"].to_numpy().max(initial=1)),
        latency=latency.fit(_without_tail(tables)),
        ready=tuple(one / last if last > 0 else one for one in found.ready),
        link_Bps=link_Bps(tables.links),
    )


def _without_tail(tables: Tables) -> pl.DataFrame:
    """Return table compute with what a backward pass does behind its last gradient as update.

    DDP copies what came back from the all-reduces then, so that it overlaps none of them.
    """
    ready = tables.layer_times.group_by("batch_size", "layer").agg(pl.col("gradient_ready").mean())
    last = ready.group_by("batch_size").agg(pl.col("gradient_ready").max().alias("last"))
    known = tables.compute.join(last, on="batch_size", how="left", maintain_order="left")
    # A batch size that nobody watched has the tail of the others.
    part = pl.col("last").fill_null(pl.col("last").mean()).fill_null(1.0)
    backward_s = pl.col("backward_s")
    return known.with_columns(
        backward_s=backward_s * part,
        update_s=pl.col("update_s").fill_null(0.0) + backward_s * (1 - part),
    ).drop("last")
