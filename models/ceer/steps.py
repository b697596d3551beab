"""The time of a step: operations and S_k, with an interval (section IV-A, equation 2)."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer.network import Network
from models.ceer.operation_times import OperationTimes, TypeTimes
from models.ceer.overhead import Overhead

Array = NDArray[np.float64]
Without = frozenset[Literal["light", "overhead"]]

PREDICTED = pl.Schema(
    {
        "dnn": pl.String(),
        "batch_size": pl.Int64(),
        "node_type": pl.String(),
        "devices": pl.Int64(),
        "link_mbps": pl.Float64(),
        "step_s": pl.Float64(),
        "low_s": pl.Float64(),
        "high_s": pl.Float64(),
        "heavy_s": pl.Float64(),
        "light_s": pl.Float64(),
        "cpu_s": pl.Float64(),
        "overhead_s": pl.Float64(),
        "unseen": pl.List(pl.String),
    }
)
"""Predicted steps; `step_s` is the sum of the four parts, NULL where `unseen` names operations.

Operations that no profile had are not named where they take no more than `NEGLIGIBLE` of a step:
`step_s` then has half of what they may take.
`low_s` and `high_s` are NULL where too little was left out to tell how wrong a prediction may be;
where operations are unseen, they are what follows from these alone.
"""


NEGLIGIBLE = 0.02
"""What unseen operations may take at most, in parts of a step, and a step is predicted yet."""


def predict_step(
    network: Network,
    times: OperationTimes,
    setup: Overhead,
    coverage: float,
    without: Without = frozenset(),
) -> dict[str, object]:
    """Return one row of `PREDICTED`.

    Types of operations err each in a direction of its own, all operations of one type in the same;
    S errs by itself. Unseen operations widen the interval, by 0 below and their bound above; with
    them there always is one.
    """
    count = network.operations["count"].to_numpy()
    known = [one for one in times.types if one.us is not None and _counts(one, without)]
    unseen = [one for one in times.types if one.us is None and _counts(one, without)]
    parts_s = dict.fromkeys(("heavy", "light", "cpu"), 0.0)
    for one in known:
        parts_s[one.operation_class] += _seconds(one, count)
    all_s = sum(_seconds(one, count) for one in times.types if one.us is not None)
    overhead_s = setup.predict_s(network.parameter_count, all_s)
    overhead_s = 0.0 if "overhead" in without else overhead_s
    step_s = max(sum(parts_s.values()) + overhead_s, 0.0)
    bound_s = sum(float((count[one.rows] * one.bound_us).sum()) / 1e6 for one in unseen)
    margin_s = _margin_s(known, count, setup, step_s, coverage)
    if margin_s is None and unseen:
        margin_s = 0.0
    named = unseen if bound_s > NEGLIGIBLE * step_s else []
    return {
        "dnn": network.dnn,
        "batch_size": network.batch_size,
        "node_type": times.node_type,
        "devices": setup.devices,
        "link_mbps": setup.link_mbps,
        "step_s": None if named else step_s + bound_s / 2,
        "low_s": None if margin_s is None else max(step_s - margin_s, 0.0),
        "high_s": None if margin_s is None else step_s + bound_s + margin_s,
        **{f"{name}_s": seconds for name, seconds in parts_s.items()},
        "overhead_s": overhead_s,
        "unseen": [one.type for one in named],
    }


def _counts(one: TypeTimes, without: Without) -> bool:
    return one.operation_class == "heavy" or "light" not in without


def _seconds(one: TypeTimes, count: Array) -> float:
    return 0.0 if one.us is None else float((count[one.rows] * one.us).sum()) / 1e6


def _margin_s(
    known: Sequence[TypeTimes], count: Array, setup: Overhead, step_s: float, coverage: float
) -> float | None:
    """Return half the width of the interval, None if it is not known how wrong a part may be."""
    if setup.error is None or any(one.sum_error is None for one in known):
        return None
    together: dict[str, float] = {}
    for one in known:
        wrong_s = _seconds(one, count) * (one.sum_error or 0.0)
        together[one.shared] = together.get(one.shared, 0.0) + wrong_s
    variance = (setup.error * step_s) ** 2 + sum(wrong_s**2 for wrong_s in together.values())
    return NormalDist().inv_cdf(0.5 + coverage / 2) * sqrt(variance)
