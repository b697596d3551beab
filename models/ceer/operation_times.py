"""How long the operations of a network take on a node type, seen or not (section IV-B and IV-D)."""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer.classes import HEAVY_US, OperationClass, check_sizes
from models.ceer.features import NAMES, convolution_shapes, table
from models.ceer.operations import NetworkOperations
from models.ceer.parameters import Median, Parameters
from models.ceer.regression import Regression
from networks.operation_graph import canonical

Array = NDArray[np.float64]


@dataclass(frozen=True)
class TypeTimes:
    """The operations of one type: which rows of the network they are, and what one of each takes.

    `us` is None where the type was not seen and may be heavy; each then takes from 0 to `bound_us`.
    `sum_error` is the relative error of all together, None where nothing was left out to tell;
    `shared` names what else errs in the same direction.
    """

    type: str
    operation_class: OperationClass
    rows: NDArray[np.int64]
    us: Array | None
    bound_us: Array
    sum_error: float | None
    shared: str


def operation_times(
    parameters: Parameters, network: NetworkOperations, node_type: str
) -> list[TypeTimes]:
    """Return the times of all operations of a network on one node type.

    A type that was measured on the node type takes what its regression says; if it is not heavy, as
    published what the median of its class says. A type that was measured only
    elsewhere, or never, takes the median if it is light or CPU. One that was never measured counts
    as light if even as slow, for its input, as the slowest heavy type it would stay below the
    threshold.

    Raises:
        BadInput: it is not known what a heavy operation works on.

    Source: Hafeez, Gandhi, Ceer, sections IV-B (equations 3 and 4) and IV-D.
    """
    types = [canonical(name) for name in network.operations["type"]]
    operations = network.operations.with_columns(pl.Series("type", types, dtype=pl.String))
    if not parameters.published:
        operations = add_operation_types(operations)
    check_sizes(operations, parameters.classes, f"operations of {network.dnn}")
    frame = table(operations)
    features = {name: frame[name].to_numpy() for name in NAMES}
    rows: dict[str, list[int]] = {}
    for row, operation_type in enumerate(operations["type"]):
        rows.setdefault(operation_type, []).append(row)
    here = (fitted for fitted in parameters.regressions if fitted.node_type == node_type)
    regressions = {fitted.type: fitted for fitted in here}
    seen = {fitted.type for fitted in parameters.regressions}
    return [
        _of_type(parameters, regressions, name, name in seen, np.array(type_rows), features)
        for name, type_rows in sorted(rows.items())
    ]


def _of_type(
    parameters: Parameters,
    regressions: Mapping[str, Regression],
    operation_type: str,
    seen: bool,
    rows: NDArray[np.int64],
    features: Mapping[str, Array],
) -> TypeTimes:
    kind = parameters.classes.of(operation_type)
    bound_us = features["input"][rows] * _slowest_per_mb(parameters, regressions)
    regressed = kind == "heavy" or not parameters.published
    if operation_type in regressions and regressed:
        fitted = regressions[operation_type]
        us = fitted.predict_us({name: column[rows] for name, column in features.items()})
        error = _sum_error(fitted, regressions)
        return TypeTimes(operation_type, kind, rows, us, bound_us, error, operation_type)
    median = {"light": parameters.light, "cpu": parameters.cpu}.get(kind)
    harmless = seen or kind == "cpu" or bool((bound_us < HEAVY_US).all())
    if median is not None and harmless:
        us = np.full(len(rows), median.us)
        return TypeTimes(operation_type, kind, rows, us, bound_us, median.error, kind)
    return TypeTimes(operation_type, kind, rows, None, bound_us, None, operation_type)


def _slowest_per_mb(parameters: Parameters, regressions: Mapping[str, Regression]) -> float:
    """Return the largest time per megabyte of input of a heavy type, or of any if there is none."""
    heavy = [fitted for fitted in regressions.values() if fitted.type in parameters.classes.heavy]
    return max((fitted.us_per_input_mb for fitted in heavy or regressions.values()), default=0.0)


def _sum_error(fitted: Regression, regressions: Mapping[str, Regression]) -> float | None:
    """Return the error of sums of a regression, or where it is not known the worst one here."""
    if fitted.sum_error is not None:
        return fitted.sum_error
    known = (other.sum_error for other in regressions.values() if other.sum_error is not None)
    return max(known, default=None)


# One time for all operations of a class (section IV-B, equations 3 and 4).


def median(rows: pl.DataFrame, types: Collection[str]) -> Median | None:
    """Return the median time over all operations of these types, DNNs and node types.

    Args:
        rows: as `models.ceer.operations.select_computation` returns them; a row counts as often as
            its operation is in a step.
        types: those of one class.

    Returns:
        None if there is no such operation.

    Source: Hafeez, Gandhi, Ceer, section IV-B.
    """
    operations = rows.filter(pl.col("type").is_in(list(types))).sort("mean_us")
    if operations.is_empty():
        return None
    # Half of all operations take this long or less.
    below = operations["count"].cum_sum() >= operations["count"].sum() / 2
    us = float(operations["mean_us"].filter(below)[0])
    sums = operations.group_by("dnn", "node_type", maintain_order=True).agg(
        pl.col("count").sum(), (pl.col("count") * pl.col("mean_us")).sum().alias("us")
    )
    relative = (sums["count"] * us - sums["us"]) / sums["us"].clip(1.0)
    error = float((relative**2).mean() or 0.0) ** 0.5  # type: ignore[arg-type]
    return Median(us=us, error=error)


# Kinds of PyTorch's convolutions: one operator there, whose kinds take unlike times.
#
# TensorFlow has an operation of its own for convolutions of single channels; its others are alike.


_KEY = ["type", "inputs"]


def add_operation_types(operations: pl.DataFrame) -> pl.DataFrame:
    """Return operations with types that name the kind of a convolution, such as `(depthwise)`.

    Args:
        operations: type (canonical) and inputs (JSON as in table operation_shape, NULL: not known),
            among other columns.
    """
    known = operations.select(_KEY).unique(maintain_order=True)
    named = pl.Series("named", [_named(*row) for row in known.iter_rows()], pl.String)
    return (
        operations.join(known.with_columns(named), on=_KEY, nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("named").alias("type"))
        .drop("named")
    )


def _named(operation_type: str, inputs: str | None) -> str:
    try:
        shapes = convolution_shapes(operation_type, json.loads(inputs or "[]"))
    except ValueError:
        return operation_type  # `features.table` says what is wrong with it
    if shapes is None:
        return operation_type
    (_, channels, *_), (_, of_group, *sides) = shapes
    if of_group == channels:
        return f"{operation_type} (pointwise)" if set(sides) == {1} else operation_type
    return f"{operation_type} ({'depthwise' if of_group == 1 else 'grouped'})"
