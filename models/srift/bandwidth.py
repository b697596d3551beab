"""The model of all-reduce bandwidth that settings ask for, and how much it errs."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from models.srift.allreduce import LearnedBandwidth, fit
from models.srift.allreduce_samples import Hardware, samples
from models.srift.baselines import AlphaBeta, Rated, fit_alpha_beta, rated
from models.srift.parameters import Settings


def bandwidth_model(
    settings: Settings,
    allreduce: pl.DataFrame,
    clusters: pl.DataFrame,
    hardware: Mapping[str, Hardware],
) -> LearnedBandwidth | AlphaBeta | Rated:
    """Fit the model of bandwidth that is asked for.

    Args:
        settings: which one, and what trees try.
        allreduce: table allreduce, of one library.
        clusters: table cluster_node of the same runs.
        hardware: features of each node type in it.

    Raises:
        BadInput: as `allreduce.fit` and `baselines.fit_alpha_beta`.
    """
    match settings.bandwidth:
        case "learned":
            return fit(allreduce, clusters, hardware, settings.grid)
        case "alpha_beta":
            return fit_alpha_beta(allreduce, clusters)
        case "rated":
            return rated(hardware)


def mean_error(
    bandwidth: LearnedBandwidth | AlphaBeta | Rated,
    allreduce: pl.DataFrame,
    clusters: pl.DataFrame,
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
