"""What a step takes beside its operations, S_k: linear in parameters (sections IV-A and IV-C)."""

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from models.ceer.observed import STEP, operation_sums
from warehouse.records import BadInput, Record

Array = NDArray[np.float64]

STEPS = pl.Schema(
    {
        "dnn": pl.String,
        "image_size": pl.Int64,
        "batch_size": pl.Int64,
        "node_type": pl.String,
        "devices": pl.Int64,
        "link_mbps": pl.Float64,
        "parameter_count": pl.Int64,
        "step_s": pl.Float64,
    }
)
"""Measured untraced steps: `batch_size` is per device, `link_mbps` NULL where links are not shaped.

`warehouse/queries/ceer_steps.sql` makes such rows of a history.
"""
_SETUP = ("node_type", "devices", "link_mbps")
_PREFERENCE = 0.05


class Overhead(Record):
    """S_k of one node type, number of devices and link.

    seconds = intercept_s + per_parameter_s · parameters + per_operation_s · sum of operations (s).
    The last is 0 in the paper; below 0, it is the share of the operations' time that overlaps.
    `error_s` is the root mean square error of DNNs that were left out, None for fewer than three.
    """

    node_type: str
    devices: int = Field(ge=1)
    link_mbps: float | None
    intercept_s: float
    per_parameter_s: float
    per_operation_s: float = 0.0
    r_squared: float | None
    dnns: int = Field(ge=1)
    error_s: float | None

    def predict_s(self, parameter_count: float, operations_s: float) -> float:
        """Return S_k in seconds; below 0 where operations overlap by more than is lost."""
        return (
            self.intercept_s
            + self.per_parameter_s * parameter_count
            + self.per_operation_s * operations_s
        )


def overheads(steps: pl.DataFrame, observed: pl.DataFrame) -> pl.DataFrame:
    """Return `STEPS` with operations_s and overhead_s of every step whose operations were profiled.

    S_1 = T_1 − Σ operations, and S_k = S_1 + (T_k − T_1) at the same batch per device, which is
    T_k − Σ operations: S_k plus the measured operations is the measured step, exactly. Repeated
    measurements of a step count with their mean.

    Raises:
        BadInput: columns are missing, a time is not above 0, or no step has a profile.

    Source: Hafeez, Gandhi, Ceer, sections IV-A (equation 2) and IV-C.
    """
    missing = [name for name in STEPS if name not in steps.columns]
    good = ((pl.col("step_s") > 0) & (pl.col("parameter_count") > 0)).fill_null(False)
    bad = 0 if missing else steps.filter(~good).height
    if missing or bad:
        found = f"no {', '.join(missing)}"
        found = found if missing else f"{bad} rows with step_s or parameter_count not above 0"
        raise BadInput(f"steps to fit: expected {', '.join(STEPS)}, found {found}; measure again")
    repeated = [name for name in STEPS if name != "step_s"]
    joined = (
        steps.select([pl.col(name).cast(kind) for name, kind in STEPS.items()])
        .group_by(repeated)
        .agg(pl.col("step_s").mean())
        .join(operation_sums(observed), on=STEP)
        .with_columns((pl.col("step_s") - pl.col("operations_s")).alias("overhead_s"))
        .sort(pl.all())
    )
    if joined.is_empty():
        raise BadInput(
            f"steps to fit: expected profiled operations of the same dnn, image_size, batch_size "
            f"and node_type, found none for {steps.height} steps; profile one of these steps"
        )
    return joined


def fit(measured: pl.DataFrame, *, overlap: bool, relative: bool) -> tuple[Overhead, ...]:
    """Fit one line per node type, number of devices and link.

    Args:
        measured: as `overheads` returns it.
        overlap: let S also depend on the sum of operations, where that predicts DNNs that were left
            out better, by more than 5 % of the error.
        relative: errors count relative to the step; else in seconds, as in the paper.
    """
    setups = measured.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    return tuple(_fit_one(rows, overlap, relative) for rows in setups)


def _fit_one(rows: pl.DataFrame, overlap: bool, relative: bool) -> Overhead:
    first = rows.row(0, named=True)
    overhead_s = rows["overhead_s"].to_numpy()
    weight = 1 / rows["step_s"].to_numpy() ** 2 if relative else np.ones(rows.height)
    folds = rows["dnn"].rank("dense").to_numpy()
    design, error_s = _design(rows, ()), None
    if rows["parameter_count"].n_unique() > 1:
        design = _design(rows, ("parameter_count",))
    if rows["dnn"].n_unique() >= 3:
        error_s = _left_out_error_s(design, overhead_s, weight, folds)
        if overlap and rows["dnn"].n_unique() >= 5:
            wider = _design(rows, ("parameter_count", "operations_s"))
            wider_error_s = _left_out_error_s(wider, overhead_s, weight, folds)
            if wider_error_s < error_s * (1 - _PREFERENCE):
                design, error_s = wider, wider_error_s
    solved = _solve(design, overhead_s, weight)
    intercept_s, per_parameter_s, per_operation_s = [*solved.tolist(), 0.0, 0.0][:3]
    variation = float(((overhead_s - overhead_s.mean()) ** 2).sum())
    left = float(((overhead_s - design @ solved) ** 2).sum())
    return Overhead(
        node_type=first["node_type"],
        devices=first["devices"],
        link_mbps=first["link_mbps"],
        intercept_s=intercept_s,
        per_parameter_s=per_parameter_s,
        per_operation_s=per_operation_s,
        r_squared=1 - left / variation if variation > 0 else None,
        dnns=rows["dnn"].n_unique(),
        error_s=error_s,
    )


def _design(rows: pl.DataFrame, columns: tuple[str, ...]) -> Array:
    ones = pl.lit(1.0).alias("one")
    return rows.select(ones, *(pl.col(name).cast(pl.Float64) for name in columns)).to_numpy()


def _solve(design: Array, overhead_s: Array, weight: Array) -> Array:
    # Parameters are millions, seconds are parts of one: scaled, they are as exact as can be.
    size = np.abs(design).max(axis=0)
    from statsmodels.regression.linear_model import WLS  # takes a second to load

    fitted = WLS(overhead_s, design / size, weights=weight).fit()
    return np.asarray(fitted.params / size, dtype=np.float64)


def _left_out_error_s(design: Array, overhead_s: Array, weight: Array, folds: Array) -> float:
    wrong_s = np.empty_like(overhead_s)
    for fold in set(folds.tolist()):
        seen = folds != fold
        solved = _solve(design[seen], overhead_s[seen], weight[seen])
        wrong_s[~seen] = design[~seen] @ solved - overhead_s[~seen]
    return float(np.sqrt(np.mean(wrong_s**2)))
