"""How wrong are all-reduces, and steps of several GPUs, of sources that were left out?"""

from collections.abc import Iterator, Mapping, Sequence
from math import exp, inf
from typing import Any

import numpy as np
import polars as pl

from benchmarks.gpu_figures import Figure, figure, mean
from models.gpu_step import collectives as collective_times
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.data_parallel import BACKWARD_SHARE
from models.gpu_step.measurements import Measurements
from models.gpu_step.scaling import OPTIMIZER_SHARE, Scaling, judged_sources
from models.srift.exchange import exchange_s, wire_factor


def collectives(timed: pl.DataFrame) -> Iterator[Figure]:
    """Yield all-reduces on numbers of nodes that a fit had not seen, and all-gathers."""
    reductions = timed.filter(collective="all_reduce")
    several = reductions.group_by("cluster").agg(pl.col("nodes").n_unique())
    clusters = several.filter(pl.col("nodes") > 1)["cluster"].to_list()
    errors, rated = list[float](), list[float]()
    for cluster in clusters:
        for nodes in sorted(set(reductions.filter(cluster=cluster)["nodes"])):
            is_left_out = (pl.col("cluster") == cluster) & (pl.col("nodes") == nodes)
            fitted = collective_times.fit(reductions.filter(~is_left_out))
            for row in reductions.filter(is_left_out).to_dicts():
                error, by_rating = _collective_errors(row, fitted)
                errors.append(error)
                rated.append(by_rating)
    yield figure(
        "all-reduces of estimate-train-time, each number of nodes left out",
        errors,
        "15 %",
        beside=f"rated bandwidth {mean(rated):.1f} %",
    )
    fitted = collective_times.fit(reductions)
    gathers = [
        _collective_errors(row, fitted)[0]
        for row in timed.filter(collective="all_gather").to_dicts()
    ]
    yield figure("all-gathers there, as halves of all-reduces", gathers)


def _collective_errors(row: Mapping[str, Any], fitted: Collectives) -> tuple[float, float]:
    """Return relative errors of a forecast, and of bytes over rated bandwidth."""
    topology = Topology(row["devices"], row["nodes"], row["link_bps"], row["network_bps"])
    ways = 2 if row["collective"] == "all_reduce" else 1
    operation = fitted.all_reduce_s if ways == 2 else fitted.all_gather_s
    sizes_bytes = np.array([row["size_bytes"]])
    seconds = float(operation(sizes_bytes, topology, row["cluster"])[0])
    ranks, slowest_bps = topology.ranks, topology.link_bps
    if topology.nodes > 1:
        slowest_bps = min(slowest_bps, topology.network_bps)
    rated_s = ways * (ranks - 1) / ranks * row["size_bytes"] / slowest_bps
    return seconds / row["seconds"] - 1, rated_s / row["seconds"] - 1


_SCALINGS: Mapping[tuple[str, bool], tuple[str, str]] = {
    ("ddp_step_time_sia", False): ("1 to 4 T4 of a node", "7 %"),
    ("tf_cnn_benchmarks_lambda", False): ("1 to 8 GPUs of a node, one process for all", "7 %"),
    ("ddp_step_time_sia", True): ("1 to 16 T4 of 2 to 4 nodes, TCP", "12 %"),
    ("mpt_training_a100", True): ("sharded, from 16 or 32 to 128 A100", "12 %"),
}
"""What sources tell of, within a node and across nodes, and the goal."""


def scaling(measured: Measurements) -> Iterator[Figure]:
    """Yield how wrong scaling is, of sources that a fit of interference had not seen.

    Beside it: linear scaling, the simulation of Srift as published over the same bandwidths, and
    passes and exchanges one after the other.
    """
    known = collective_times.fit(measured.collectives.filter(collective="all_reduce"))
    judged_scalings = judged_sources(measured.scalings, known)
    for (source, is_across), (what, goal) in _SCALINGS.items():
        group = [
            judged
            for judged in judged_scalings
            if judged.scaling.source == source and (judged.scaling.more.nodes > 1) == is_across
        ]
        linear = mean(1 / judged.scaling.factor - 1 for judged in group)
        beside = f"linear {linear:.1f} %"
        if all(judged.scaling.fewest.ranks == 1 for judged in group):
            srift = mean(_srift_as_published([judged.scaling for judged in group], known))
            serial = mean(_one_by_one(judged.scaling, known) for judged in group)
            beside += f", Srift as published {srift:.1f} %, no overlap {serial:.1f} %"
        yield figure(
            f"scaling, {source} left out: {what}",
            [exp(judged.error) - 1 for judged in group],
            goal,
            beside=beside,
        )


def _srift_as_published(scalings: Sequence[Scaling], known: Collectives) -> list[float]:
    """Return errors of SIM of Srift's section 4.3: each gradient is exchanged by itself.

    Gradients come at even intervals; exchanges and the backward pass do not disturb each other.
    """
    shape = len(scalings), max(len(scaling.sizes_bytes) for scaling in scalings)
    starts_s, wire_bytes, bus_Bps = np.full(shape, inf), np.zeros(shape), np.ones(shape)
    for place, scaling in enumerate(scalings):
        sizes_bytes = np.array(scaling.sizes_bytes[::-1])
        of_row = place, slice(len(sizes_bytes))
        ready = np.arange(1, len(sizes_bytes) + 1) / len(sizes_bytes)
        starts_s[of_row] = ready * _backward_s(scaling)
        wire_bytes[of_row] = sizes_bytes * wire_factor(scaling.more.ranks)
        reduction_s = known.all_reduce_s(sizes_bytes, scaling.more)
        # A source has gradients of no bytes, whose bandwidth is above 0 all the same.
        bus_Bps[of_row] = np.maximum(wire_bytes[of_row] / reduction_s, 1.0)
    caps_Bps = [each.more.network_bps if each.more.nodes > 1 else inf for each in scalings]
    ends_s = exchange_s(starts_s, wire_bytes, bus_Bps, np.array(caps_Bps))
    return [
        (scaling.fewest_s + max(float(end_s) - _backward_s(scaling), 0.0)) / scaling.more_s - 1
        for scaling, end_s in zip(scalings, ends_s, strict=True)
    ]


def _backward_s(scaling: Scaling) -> float:
    return scaling.fewest_s * (1 - OPTIMIZER_SHARE) * BACKWARD_SHARE


def _one_by_one(scaling: Scaling, known: Collectives) -> float:
    """Return the error of passes and one exchange of all gradients, one after the other."""
    sizes_bytes = np.array([sum(scaling.sizes_bytes)])
    exchange_s = float(known.all_reduce_s(sizes_bytes, scaling.more)[0])
    return (scaling.fewest_s + exchange_s) / scaling.more_s - 1
