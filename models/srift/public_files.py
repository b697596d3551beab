"""All-reduces and steps of data-parallel jobs that others timed, forecast by Srift's parts."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import polars as pl

from models.gpu_step import collectives
from models.gpu_step.collectives import Collectives, Topology
from models.srift.allreduce import LearnedBandwidth
from models.srift.allreduce_samples import AlphaBeta, Hardware, RatedBandwidth
from models.srift.boosting import Across, Grid
from models.srift.exchange import wire_factor
from models.srift.parameters import Settings, bandwidth_model
from warehouse.records import BadInput

RATED_GBPS = {"polaris": 400.0, "sirius": 400.0, "sophia": 1600.0, "p4de": 400.0}
"""Of a node's network devices together, by a word in the system's name, as operators print it."""
NVLINK_BPS = 300e9
"""Of an A100 in each direction: all of these clusters have them."""
MTU_BYTES = 9000
"""Logs do not say theirs; so much have the jumbo frames that networks of such clusters carry."""
Bandwidth = LearnedBandwidth | AlphaBeta | RatedBandwidth
Model = Literal["learned", "alpha_beta", "rated"]


@dataclass(frozen=True)
class PublicAllreduces:
    """A model of bandwidth, and the clusters that it was fitted to."""

    bandwidth: Bandwidth
    known: frozenset[str]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects on known clusters.

        Args:
            subjects: subject_id, node_type, settings, world_size and size_bytes.
        """
        rows = _named(subjects).filter(pl.col("place").is_in(self.known))
        parts = rows.partition_by("place", "world_size", maintain_order=True)
        none = pl.lit(None, pl.Float64)
        forecasts = [
            part.select("subject_id", value=self._seconds(part), low=none, high=none)
            for part in parts
        ]
        return (
            pl.concat(forecasts)
            if forecasts
            else rows.select("subject_id", value=none, low=none, high=none)
        )

    def parameters_json(self) -> str:
        """Return the fitted model."""
        return self.bandwidth.canonical_json()

    def _seconds(self, rows: pl.DataFrame) -> pl.Series:
        place, ranks = rows["place"][0], rows["world_size"][0]
        size_bytes = rows["size_bytes"].to_numpy()
        bus_Bps = self.bandwidth.table((place,), np.array([ranks]), size_bytes)[0]
        return pl.Series(size_bytes * wire_factor(ranks) / bus_Bps)


def fit(model: Model) -> Callable[[pl.DataFrame], PublicAllreduces]:
    """Return what fits the `learned`, `alpha_beta` or `rated` model of bandwidth.

    It is given node_type, settings, gpu, devices_per_node, world_size, size_bytes, repeat and value
    (seconds). A system with other settings is another kind of cluster.

    Raises:
        BadInput: as the fits; a system whose rated bandwidth nobody has written down.
    """

    def fitted(rows: pl.DataFrame) -> PublicAllreduces:
        seen = _named(rows)
        hardware = {
            row["place"]: Hardware(
                location=row["node_type"],
                device=row["gpu"],
                processor=row["settings"],
                devices=row["devices_per_node"],
                rated_gbps=_rated_gbps(row["node_type"]),
            )
            for row in seen.unique("place").sort("place").to_dicts()
        }
        return PublicAllreduces(_bandwidth(model, seen, hardware), frozenset(hardware))

    return fitted


def _bandwidth(model: Model, seen: pl.DataFrame, hardware: Mapping[str, Hardware]) -> Bandwidth:
    n = pl.col("world_size")
    allreduce = seen.select(
        "world_size",
        "size_bytes",
        run_id=pl.col("place"),
        library=pl.lit("nccl"),
        concurrent=pl.lit(1),
        trial=pl.int_range(pl.len()).over("place", "world_size", "size_bytes"),
        rank=pl.lit(0),
        seconds=pl.col("value"),
        bus_bandwidth_Bps=2 * pl.col("size_bytes") * (n - 1) / n / pl.col("value"),
        mtu_bytes=pl.lit(MTU_BYTES),
    )
    clusters = seen.select(run_id=pl.col("place"), node_type=pl.col("place")).unique()
    # What is asked for are other world sizes: a ratio to the formula goes on there. Repeats agree
    # so well that their mean is no question, and seconds would let small buffers decide.
    several = seen["world_size"].n_unique() > 1
    across: Across = "world_sizes" if several else "configurations"
    grid = Grid(labels=("ratio",), weights=("equal",), across=across)
    return bandwidth_model(Settings(bandwidth=model, grid=grid), allreduce, clusters, hardware)


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        place=pl.concat_str("node_type", "settings", separator=" ", ignore_nulls=True)
    )


def _rated_gbps(system: str) -> float:
    for word, gbps in RATED_GBPS.items():
        if word in system:
            return gbps
    raise BadInput(f"{system}: no rated bandwidth is known; add it to RATED_GBPS")


# Steps of data-parallel jobs that others timed: computation, and an exchange of unknown size.
#
# What replicas add to a step of one is, as in section 4.2, bytes over bandwidth. Neither is written
# down, so each network has a size, and each placement seconds for every unit of it: the logarithms
# add up, and are found by polishing with medians (Tukey, Exploratory Data Analysis, 1977).


_ALONE = ("dnn", "node_type", "batch_size")
_PLACE = ("node_type", "place")
_ROUNDS = 20


@dataclass(frozen=True)
class Placements:
    """Seconds of one replica's step, and what exchanges add.

    `alone_s` by network, node type and batch; `size` the logarithm of each network's exchange,
    `slowness` that of the seconds which a unit of it takes in each placement.
    """

    alone_s: pl.DataFrame
    size: pl.DataFrame
    slowness: pl.DataFrame

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects in known placements.

        Args:
            subjects: subject_id, dnn, node_type, batch_size (of a replica) and placement.
        """
        rows = (
            _placed(subjects)
            .join(self.alone_s, on=_ALONE, maintain_order="left")
            .join(self.size, on="dnn", maintain_order="left")
            .join(self.slowness, on=_PLACE, maintain_order="left")
        )
        none = pl.lit(None, pl.Float64)
        exchange_s = (pl.col("size") + pl.col("slowness")).exp()
        return rows.select("subject_id", value=pl.col("alone_s") + exchange_s, low=none, high=none)

    def parameters_json(self) -> str:
        """Return all three tables."""
        tables = {"alone_s": self.alone_s, "size": self.size, "slowness": self.slowness}
        return json.dumps(
            {name: table.to_dicts() for name, table in tables.items()}, sort_keys=True
        )


def fit_placements(rows: pl.DataFrame) -> Placements:
    """Fit to steps of some networks on several nodes and of others on one.

    Args:
        rows: value (seconds), dnn, node_type, batch_size (of a replica), placement (replicas on
            each node, digit by digit) and world_size.

    Raises:
        BadInput: no network was timed with one replica and with several.
    """
    means = _placed(rows).group_by(*_ALONE, "place", "world_size").agg(pl.col("value").mean())
    alone = means.filter(world_size=1).select(*_ALONE, alone_s="value").sort(_ALONE)
    added = (
        means.filter(pl.col("world_size") > 1)
        .join(alone, on=_ALONE)
        .group_by("dnn", *_PLACE)
        .agg(exchange_s=(pl.col("value") - pl.col("alone_s")).mean())
        # An exchange too short to be told from noise says nothing of a ratio.
        .filter(pl.col("exchange_s") > 0)
        .with_columns(size=pl.lit(0.0), slowness=pl.lit(0.0))
    )
    if added.is_empty():
        raise BadInput("no network was timed with one replica and with several; found no exchange")
    left = pl.col("exchange_s").log()
    for _ in range(_ROUNDS):
        added = added.with_columns(slowness=(left - pl.col("size")).median().over(_PLACE))
        added = added.with_columns(size=(left - pl.col("slowness")).median().over("dnn"))
    return Placements(
        alone,
        added.select("dnn", "size").unique().sort("dnn"),
        added.select(*_PLACE, "slowness").unique().sort(_PLACE),
    )


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Add `place`: how many replicas are on each node, most first."""
    digits = pl.col("placement").cast(pl.String).str.split("").list.sort(descending=True)
    return rows.with_columns(place=digits.list.join(""))


# All-reduces by the model of collectives that forecasts of GPUs use.


@dataclass(frozen=True)
class PublicCollectives:
    """A fitted model of collectives, and the nodes of each cluster that it was fitted to."""

    collectives: Collectives
    topologies: Mapping[str, Topology]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects on known clusters."""
        rows = _named(subjects).filter(pl.col("place").is_in(list(self.topologies)))
        values = [
            float(
                self.collectives.all_reduce_s(
                    np.array([float(size_bytes)]),
                    replace(known := self.topologies[place], nodes=ranks // known.devices),
                    place,
                )[0]
            )
            for place, ranks, size_bytes in rows.select(
                "place", "world_size", "size_bytes"
            ).iter_rows()
        ]
        none = pl.lit(None, pl.Float64)
        return rows.select(
            "subject_id", value=pl.Series(values, dtype=pl.Float64), low=none, high=none
        )

    def parameters_json(self) -> str:
        """Return the fitted model."""
        return json.dumps(self.collectives.fields(), sort_keys=True)


def fit_collectives(rows: pl.DataFrame) -> PublicCollectives:
    """Return `models.gpu_step.collectives` fitted to the rows that `fit` takes.

    Raises:
        BadInput: a system whose rated bandwidth nobody has written down.
    """
    seen = _named(rows)
    topologies = {
        row["place"]: Topology(
            row["devices_per_node"], 1, NVLINK_BPS, _rated_gbps(row["node_type"]) * 1e9 / 8
        )
        for row in seen.unique("place").to_dicts()
    }
    timed = seen.select(
        "size_bytes",
        cluster="place",
        devices="devices_per_node",
        nodes=pl.col("world_size") // pl.col("devices_per_node"),
        link_bps=pl.lit(NVLINK_BPS),
        network_bps=pl.col("place").replace_strict(
            {place: topology.network_bps for place, topology in topologies.items()}
        ),
        seconds=pl.col("value"),
    )
    return PublicCollectives(collectives.fit(timed), topologies)
