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
    """Return the mean absolute relative error for buffers above the MTU: of trees, of others."""
    if isinstance(bandwidth, LearnedBandwidth):
        return bandwidth.large.mape_percent / 100
    rows = samples(allreduce, clusters).filter(
        pl.col("concurrent") == 1, pl.col("size_bytes") > pl.col("mtu_bytes")
    )
    errors = [
        abs(
            float(bandwidth.table(tuple(mix.split("+")), np.array([n]), np.array([size]))[0, 0])
            / found
            - 1
        )
        for mix, n, size, found in rows.select(
            "node_types", "world_size", "size_bytes", "bus_bandwidth_Bps"
        ).iter_rows()
    ]
    return float(np.mean(errors)) if errors else 0.0
