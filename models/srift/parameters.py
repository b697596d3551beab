"""What a fit of Srift keeps, and its model of all-reduce bandwidth for links of any speed."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
import polars as pl
from pydantic import Field

from models.srift.allreduce import LearnedBandwidth
from models.srift.allreduce_samples import AlphaBeta, samples
from models.srift.boosting import Grid
from models.srift.exchange import Buckets
from models.srift.profiles import NetworkProfile
from warehouse.records import NodeGroup, Record

STREAMS: Mapping[str, int] = {"gloo": 2, "nccl": 1}
"""All-reduces of one process group that PyTorch lets go on at a time, unless told otherwise."""


class Settings(Record):
    """How to fit and simulate; the defaults are explained in docs/srift.md.

    `bandwidth`: trees, or the formula beside them. `buckets`: as PyTorch sends
    gradients; None: ideal overlap. `streams`: how many all-reduces go on at a time; `library`:
    as many as PyTorch lets, None: any number. `slowdown`: whether all-reduces and the backward
    pass slow each other down, and only a share of what steps scatter by is straggling, as was
    measured. Intervals cover `coverage`, if predictions err by chance with a relative standard
    deviation of `model_error` besides what the bandwidth model errs on what was probed.
    """

    bandwidth: Literal["learned", "alpha_beta"] = "learned"
    grid: Grid = Grid()
    buckets: Buckets | None = Buckets()
    streams: int | Literal["library"] | None = "library"
    slowdown: bool = True
    coverage: float = Field(default=0.9, gt=0, lt=1)
    model_error: float = Field(default=0.05, ge=0)


PAPER = Settings(
    grid=Grid(labels=("bandwidth",), weights=("equal",)),
    buckets=None,
    streams=None,
    slowdown=False,
    model_error=0.0,
)
"""Ideal overlap, and trees that learn bandwidth itself."""


class ProfiledNetwork(NetworkProfile):
    """The profile of a network on each node type, with links of one speed.

    `slowdown` is that of the backward pass while an all-reduce goes on, `hindrance` that of
    all-reduces as long as it does: of this network, else the mean of those that were measured, else
    0.
    """

    dnn: str
    image_size: int
    link_mbps: float | None
    slowdown: float = Field(ge=0)
    hindrance: float = Field(default=0.0, ge=0)


class Parameters(Record):
    """What was fitted.

    `bandwidth` knows node types by their `probed.place`, and errs by `bandwidth_error` of the time
    that what was probed took (`bandwidth.mean_error`). `node_groups` is how the
    profiled node types were defined, `places` where all-reduces were probed. Passes and updates
    take `pace` times as long in training as in profiles (`pace.pace`).
    """

    settings: Settings
    library: str
    bandwidth: LearnedBandwidth | AlphaBeta
    bandwidth_error: float = Field(ge=0)
    places: tuple[str, ...]
    node_groups: Mapping[str, NodeGroup]
    networks: tuple[ProfiledNetwork, ...]
    run_ids: tuple[str, ...]
    pace: float = Field(default=1.0, gt=0)


def mean_error(
    bandwidth: LearnedBandwidth | AlphaBeta, allreduce: pl.DataFrame, clusters: pl.DataFrame
) -> float:
    """Return by which part of the time a model errs on what it was fitted to, above the MTU.

    Rows count by the time they took: what is soon over says little about an iteration.
    """
    rows = samples(allreduce, clusters).filter(
        pl.col("concurrent") == 1, pl.col("size_bytes") > pl.col("mtu_bytes")
    )
    wrong_s = 0.0
    for (mix, n), part in rows.group_by("node_types", "world_size", maintain_order=True):
        size, seconds = part["size_bytes"].to_numpy(), part["seconds"].to_numpy()
        node_types = tuple(str(mix).split("+"))
        found_Bps = bandwidth.table(node_types, np.array([n]), size)[0]
        wrong_s += float(np.abs(part["bus_bandwidth_Bps"].to_numpy() / found_Bps - 1) @ seconds)
    return wrong_s / float(rows["seconds"].to_numpy().sum()) if rows.height else 0.0
