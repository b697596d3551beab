"""Ceer: a step is the sum of its operations and S_k (Hafeez and Gandhi, section IV)."""

from collections.abc import Sequence
from math import sqrt
from statistics import NormalDist
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer import overhead, regression
from models.ceer.classes import check_sizes, classify
from models.ceer.features import NAMES, table
from models.ceer.operation_times import TypeTimes, add_operation_types, median, operation_times
from models.ceer.operations import NetworkOperations, select_computation
from models.ceer.overhead import DeviceOverhead
from models.ceer.parameters import Parameters

# The time of a step: operations and S_k, with an interval (section IV-A, equation 2).


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
_COVERAGE = 0.9
"""Of intervals."""


def predict_step(
    network: NetworkOperations,
    types: Sequence[TypeTimes],
    setup: DeviceOverhead,
    without: Without = frozenset(),
) -> dict[str, object]:
    """Return one row of `PREDICTED`.

    Types of operations err each in a direction of its own, all operations of one type in the same;
    S errs by itself. Unseen operations widen the interval, by 0 below and their bound above; with
    them there always is one.
    """
    count = network.operations["count"].to_numpy()
    counted = [
        group for group in types if group.operation_class == "heavy" or "light" not in without
    ]
    known = [group for group in counted if group.us is not None]
    unseen = [group for group in counted if group.us is None]
    parts_s = dict.fromkeys(("heavy", "light", "cpu"), 0.0)
    for group in known:
        parts_s[group.operation_class] += _seconds(group, count)
    all_s = sum(_seconds(group, count) for group in types if group.us is not None)
    overhead_s = setup.predict_s(network.parameter_count, all_s)
    overhead_s = 0.0 if "overhead" in without else overhead_s
    step_s = max(sum(parts_s.values()) + overhead_s, 0.0)
    bound_s = sum(float((count[group.rows] * group.bound_us).sum()) / 1e6 for group in unseen)
    margin_s = _margin_s(known, count, setup, step_s)
    if margin_s is None and unseen:
        margin_s = 0.0
    named = unseen if bound_s > NEGLIGIBLE * step_s else []
    return {
        "dnn": network.dnn,
        "batch_size": network.batch_size,
        "node_type": setup.node_type,
        "devices": setup.devices,
        "link_mbps": setup.link_mbps,
        "step_s": None if named else step_s + bound_s / 2,
        "low_s": None if margin_s is None else max(step_s - margin_s, 0.0),
        "high_s": None if margin_s is None else step_s + bound_s + margin_s,
        **{f"{name}_s": seconds for name, seconds in parts_s.items()},
        "overhead_s": overhead_s,
        "unseen": [group.type for group in named],
    }


def _seconds(group: TypeTimes, count: Array) -> float:
    return 0.0 if group.us is None else float((count[group.rows] * group.us).sum()) / 1e6


def _margin_s(
    known: Sequence[TypeTimes], count: Array, setup: DeviceOverhead, step_s: float
) -> float | None:
    """Return half the width of the interval, None if it is not known how wrong a part may be."""
    if setup.error is None or any(group.sum_error is None for group in known):
        return None
    together: dict[str, float] = {}
    for group in known:
        wrong_s = _seconds(group, count) * (group.sum_error or 0.0)
        together[group.shared] = together.get(group.shared, 0.0) + wrong_s
    variance = (setup.error * step_s) ** 2 + sum(wrong_s**2 for wrong_s in together.values())
    return NormalDist().inv_cdf(0.5 + _COVERAGE / 2) * sqrt(variance)


def predict_steps(
    parameters: Parameters,
    network: NetworkOperations,
    node_type: str,
    without: Without = frozenset(),
) -> pl.DataFrame:
    """Return the time of one step, for every number of devices and link for which there is S.

    The step of k devices processes k batches. Where an operation that may be heavy was not seen,
    `step_s` is NULL, `unseen` names it, and low_s to high_s is what follows: it takes nothing, or
    as long for its input as the slowest heavy operation does.

    Args:
        parameters: of a fit.
        network: what is trained.
        node_type: of its devices.
        without: for ablations; `light` leaves out light and CPU operations, `overhead` S.

    Returns:
        `PREDICTED`, sorted by devices and link.
    """
    types = operation_times(parameters, network, node_type)
    rows = [
        predict_step(network, types, setup, without)
        for setup in parameters.overheads
        if setup.node_type == node_type
    ]
    return pl.DataFrame(rows, schema=PREDICTED, orient="row").sort("devices", "link_mbps")


def fit(operations: pl.DataFrame, steps: pl.DataFrame, published: bool = False) -> Parameters:
    """Fit to profiled operations and measured steps.

    Args:
        operations: `models.ceer.operations.OBSERVED`.
        steps: `models.ceer.overhead.STEPS`, of 1 and more devices.
        published: whether as section IV has it.

    Raises:
        BadInput: tables that are incomplete, or contradict each other.
    """
    rows = select_computation(operations)
    if not published:
        rows = add_operation_types(rows)
    classes = classify(rows)
    check_sizes(rows, classes, "operations to fit")
    measured = overhead.overheads(steps, operations)
    return Parameters(
        published=published,
        classes=classes,
        regressions=_regressions(rows, published),
        light=median(rows, [name for name in rows["type"].unique() if classes.of(name) == "light"]),
        cpu=median(rows, classes.cpu),
        overheads=overhead.fit(measured, published),
    )


def _regressions(rows: pl.DataFrame, published: bool) -> tuple[regression.Regression, ...]:
    points = pl.concat(
        [rows.select("type", "node_type", "dnn", "count", "mean_us"), table(rows)], how="horizontal"
    )
    # Equal operations of a DNN are one point, however often they were profiled.
    merged = points.group_by("type", "node_type", "dnn", *NAMES).agg(
        ((pl.col("count") * pl.col("mean_us")).sum() / pl.col("count").sum()).alias("mean_us"),
        pl.col("count").sum(),
    )
    groups = merged.sort(pl.all()).partition_by("type", "node_type", maintain_order=True)
    return tuple(
        regression.fit(
            group,
            operation_type=group["type"][0],
            node_type=group["node_type"][0],
            published=published,
        )
        for group in groups
    )
