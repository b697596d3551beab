"""How wrong are all-reduces, and steps of several GPUs, of sources that were left out?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import exp, inf

import numpy as np
import polars as pl

from benchmarks.gpu_figures import Figure, figure, mean
from models.gpu_step import collectives as collective_times
from models.gpu_step.collectives import Collectives, Topology
from models.gpu_step.data_parallel import BACKWARD_SHARE, FIRST_BUCKET_BYTES
from models.gpu_step.scaling import OPTIMIZER_SHARE, Scaling, judged_sources
from models.srift.exchange import exchange_s, wire_factor

_PLACE = ("devices", "nodes", "link_bps", "network_bps", "cluster")
_GOALS: Mapping[str, str] = {
    "all_reduce": "15 %",
    "all_gather": "12 %",
    "reduce_scatter": "12 %",
    "all_to_all": "12 %",
}


def collectives(timed: pl.DataFrame) -> Iterator[Figure]:
    """Yield collectives on numbers of nodes and on clusters that a fit had not seen."""
    several = timed.group_by("cluster").agg(pl.col("nodes").n_unique()).filter(pl.col("nodes") > 1)
    for cluster in several["cluster"]:
        of_cluster = pl.col("cluster") == cluster
        counts = sorted(set(timed.filter(of_cluster)["nodes"]))
        errors = pl.concat(
            [_left_out(timed, of_cluster & (pl.col("nodes") == count)) for count in counts]
        )
        for collective in ("all_reduce", "all_gather"):
            judged = f"{_words(collective)} of {cluster}, each number of nodes left out"
            yield _figure(judged, errors.filter(collective=collective), _GOALS[collective])
    clusters = sorted(set(timed["cluster"]))
    errors = pl.concat([_left_out(timed, pl.col("cluster") == each) for each in clusters])
    is_large = pl.col("size_bytes") >= FIRST_BUCKET_BYTES
    for collective, goal in _GOALS.items():
        large = errors.filter(is_large, collective=collective)
        left_out = f"each of {large['cluster'].n_unique()} clusters left out"
        yield _figure(f"{_words(collective)} from 1 MiB, {left_out}", large, goal)
    small = errors.filter(~is_large, collective="all_reduce")
    yield _figure("all-reduces from 4 KiB to 1 MiB, each cluster left out", small)
    yield _own_logs(timed)


def _own_logs(timed: pl.DataFrame) -> Figure:
    """Return all-reduces of types that are left out but for every second size: one's own log."""
    size = pl.col("size_bytes").rank("dense").over("cluster", "devices", "nodes")
    is_log = pl.col("collective").eq("all_reduce") & (size % 2 == 0)
    before, after = list[float](), list[float]()
    marked = timed.with_columns(
        is_log=is_log, type=pl.col("cluster").str.split(" on ").list.first()
    )
    for name in sorted(set(marked["type"])):
        others, own = marked.filter(pl.col("type") != name), marked.filter(type=name)
        others_size = own.filter(~pl.col("is_log"), collective="all_reduce")
        before.extend(_errors(collective_times.fit(others), others_size))
        for cluster in sorted(set(own["cluster"])):
            log, judged = own.filter("is_log", cluster=cluster), others_size.filter(cluster=cluster)
            after.extend(_errors(collective_times.fit(pl.concat([others, log])), judged))
    judged_words = "all-reduces of a type left out, after a log of every second size on it"
    return figure(judged_words, after, beside=f"before {mean(before):.1f} %")


def _words(collective: str) -> str:
    return f"{collective.replace('_', '-')}s"


def _figure(judged: str, errors: pl.DataFrame, goal: str = "") -> Figure:
    inside = 100 * errors["is_inside"].cast(int).sum() / len(errors)
    beside = f"rated bandwidth {mean(errors['rated']):.1f} %, intervals hold {inside:.0f} %"
    return figure(judged, errors["error"].to_list(), goal, beside=beside)


def _left_out(timed: pl.DataFrame, is_left_out: pl.Expr) -> pl.DataFrame:
    """Return what is left out with relative errors of a forecast and of bytes over rated links.

    `is_inside`: the time is within an interval of a nominal 90 %.
    """
    known = collective_times.fit(timed.filter(~is_left_out)).with_widths()
    judged = timed.filter(is_left_out)
    low, high = (
        _errors(replace(known, deviations=sign * collective_times.NINE_OF_TEN), judged)
        for sign in (-1, 1)
    )
    ranks, is_across = pl.col("devices") * pl.col("nodes"), pl.col("nodes") > 1
    slowest_bps = pl.min_horizontal("link_bps", pl.when(is_across).then("network_bps"))
    ways = pl.when(collective="all_reduce").then(2).otherwise(1)
    rated_s = ways * (ranks - 1) / ranks * pl.col("size_bytes") / slowest_bps
    return judged.with_columns(
        error=_errors(known, judged),
        is_inside=(low <= 0) & (high >= 0),
        rated=rated_s / pl.col("seconds") - 1,
    )


def _errors(known: Collectives, judged: pl.DataFrame) -> pl.Series:
    """Return relative errors of forecasts of what is judged."""
    rows = judged.with_row_index()
    parts = []
    for part in rows.partition_by("collective", *_PLACE):
        collective, *topology = part.select("collective", *_PLACE).row(0)
        forecast_s = known.seconds(collective, part["size_bytes"].to_numpy(), Topology(*topology))
        parts.append(part.select("index", error=forecast_s / part["seconds"] - 1))
    return pl.concat(parts).sort("index")["error"]


_SCALINGS: Mapping[tuple[str, bool], tuple[str, str]] = {
    ("ddp_step_time_sia", False): ("1 to 4 T4 of a node", "7 %"),
    ("tf_cnn_benchmarks_lambda", False): ("1 to 8 GPUs of a node, one process for all", "7 %"),
    ("ddp_step_time_sia", True): ("1 to 16 T4 of 2 to 4 nodes, TCP", "12 %"),
    ("mpt_training_a100", True): ("sharded, from 16 or 32 to 128 A100", "12 %"),
}
"""What sources tell of, within a node and across nodes, and the goal."""


def scaling(scalings: Sequence[Scaling], known: Collectives) -> Iterator[Figure]:
    """Yield how wrong scaling is, of sources that a fit of straggling had not seen.

    Beside it: linear scaling, the simulation of Srift as published over the same bandwidths, and
    passes and exchanges one after the other.
    """
    judged_scalings = judged_sources(scalings, known)
    for (source, is_across), (what, goal) in _SCALINGS.items():
        judged = [
            (each, error)
            for each, error in judged_scalings
            if each.source == source and (each.more.nodes > 1) == is_across
        ]
        group = [each for each, _ in judged]
        beside = f"linear {mean(1 / each.factor - 1 for each in group):.1f} %"
        if all(each.fewest.ranks == 1 for each in group):
            srift = mean(_srift_as_published(group, known))
            serial = mean(_one_by_one(each, known) for each in group)
            beside += f", Srift as published {srift:.1f} %, no overlap {serial:.1f} %"
        yield figure(
            f"scaling, {source} left out: {what}",
            [exp(error) - 1 for _, error in judged],
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
        reduction_s = known.seconds("all_reduce", sizes_bytes, scaling.more)
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
    exchange_s = float(known.seconds("all_reduce", sizes_bytes, scaling.more)[0])
    return (scaling.fewest_s + exchange_s) / scaling.more_s - 1
