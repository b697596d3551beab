"""What a step takes beside its operations, S_k: linear in parameters (sections IV-A and IV-C)."""

from collections.abc import Mapping, Sequence
from math import hypot
from typing import Literal

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
_LINE: tuple[str, ...] = ("1", "parameters")
_ALONE = (("parameters",), ("operations",), _LINE, ("parameters", "operations"))
_PREFERENCE = 0.05
_EXACT = 1e-9


class Overhead(Record):
    """S_k of one node type, number of devices and link.

    seconds = intercept_s + per_parameter_s · parameters + per_operation_s · sum of operations (s).
    The last is 0 in the paper; below 0, it is the share of the operations' time that overlaps.
    With `alone`, S of one device, these seconds are what several devices add to it.
    `r_squared` is that of the seconds. `error` is the root mean square error of S of DNNs that were
    left out, relative to their steps; None for fewer than three.
    """

    node_type: str
    devices: int = Field(ge=1)
    link_mbps: float | None
    intercept_s: float
    per_parameter_s: float
    per_operation_s: float = 0.0
    r_squared: float | None
    dnns: int = Field(ge=1)
    error: float | None
    alone: "Overhead | None" = None

    def predict_s(self, parameter_count: float, operations_s: float) -> float:
        """Return S_k in seconds; below 0 where operations overlap by more than is lost.

        No device makes the others faster: where a line would have it so, nothing is added.
        """
        seconds = (
            self.intercept_s
            + self.per_parameter_s * parameter_count
            + self.per_operation_s * operations_s
        )
        if self.alone is None:
            return seconds
        return self.alone.predict_s(parameter_count, operations_s) + max(seconds, 0.0)


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


def fit(
    measured: pl.DataFrame, *, forms: Literal["paper", "own"], relative: bool
) -> tuple[Overhead, ...]:
    """Fit S of each node type, number of devices and link.

    Args:
        measured: as `overheads` returns it.
        forms: `paper`: S_k is a line in parameters; `own`: T_k − T_1 is, and S_1, which is added to
            it, grows from nothing with parameters, with the sum of operations or with both, or is
            a line: whichever predicts DNNs that were left out best, simpler ones preferred as in
            `models.ceer.regression.fit`. Where none was measured on one device, as in the paper.
        relative: errors count relative to the step; else in seconds, as in the paper.
    """
    setups = measured.sort(_SETUP).partition_by(_SETUP, maintain_order=True)
    if forms == "paper":
        return tuple(_fit_one(rows, (_LINE,), relative) for rows in setups)
    single = [rows for rows in setups if rows["devices"][0] == 1]
    alone = {rows["node_type"][0]: _fit_one(rows, _ALONE, relative) for rows in single}
    steps = measured.filter(pl.col("devices") == 1).select(*STEP, alone_s="overhead_s")
    return tuple(_with_alone(rows, alone, steps, relative) for rows in setups)


def _with_alone(
    rows: pl.DataFrame, alone: Mapping[str, Overhead], steps: pl.DataFrame, relative: bool
) -> Overhead:
    """Return S_1, or S_1 and the line in what steps of several devices take longer."""
    if rows["devices"][0] == 1:
        return _fit_one(rows, _ALONE, relative)
    added = rows.join(steps, on=STEP).with_columns(pl.col("overhead_s") - pl.col("alone_s"))
    first = alone.get(rows["node_type"][0])
    if first is None or added.is_empty():
        return _fit_one(rows, (_LINE,), relative)
    line = _fit_one(added, (_LINE,), relative)
    known = first.error is not None and line.error is not None
    return line.model_copy(
        update={
            "alone": first,
            "error": hypot(first.error or 0.0, line.error or 0.0) if known else None,
        }
    )


def _fit_one(rows: pl.DataFrame, forms: Sequence[tuple[str, ...]], relative: bool) -> Overhead:
    first, dnns = rows.row(0, named=True), rows["dnn"].n_unique()
    overhead_s, step_s = rows["overhead_s"].to_numpy(), rows["step_s"].to_numpy()
    weight = 1 / step_s**2 if relative else np.ones(rows.height)
    terms, error = _LINE, None
    if dnns >= 3:
        folds = rows["dnn"].rank("dense").to_numpy()
        tried = {
            form: _left_out_error(_design(rows, form), overhead_s, weight, folds, step_s)
            for form in forms
        }
        enough = min(tried.values()) / (1 - _PREFERENCE) + _EXACT
        terms, error = next(one for one in tried.items() if one[1] <= enough)
    if rows["parameter_count"].n_unique() == 1 and terms == _LINE:
        terms = _LINE[:1]
    design = _design(rows, terms)
    solved = _solve(design, overhead_s, weight)
    of_term = dict(zip(terms, solved.tolist(), strict=True))
    variation = float(((overhead_s - overhead_s.mean()) ** 2).sum())
    left = float(((overhead_s - design @ solved) ** 2).sum())
    return Overhead(
        node_type=first["node_type"],
        devices=first["devices"],
        link_mbps=first["link_mbps"],
        intercept_s=of_term.get("1", 0.0),
        per_parameter_s=of_term.get("parameters", 0.0),
        per_operation_s=of_term.get("operations", 0.0),
        r_squared=1 - left / variation if variation > 0 else None,
        dnns=dnns,
        error=error,
    )


def _design(rows: pl.DataFrame, terms: Sequence[str]) -> Array:
    column = {
        "1": np.ones(rows.height),
        "parameters": rows["parameter_count"].to_numpy().astype(np.float64),
        "operations": rows["operations_s"].to_numpy(),
    }
    return np.column_stack([column[term] for term in terms])


def _solve(design: Array, overhead_s: Array, weight: Array) -> Array:
    # Parameters are millions, seconds are parts of one: scaled, they are as exact as can be.
    size = np.abs(design).max(axis=0)
    from statsmodels.regression.linear_model import WLS  # takes a second to load

    fitted = WLS(overhead_s, design / size, weights=weight).fit()
    return np.asarray(fitted.params / size, dtype=np.float64)


def _left_out_error(
    design: Array, overhead_s: Array, weight: Array, folds: Array, step_s: Array
) -> float:
    """Return the root mean square error of DNNs that were left out, relative to their steps."""
    wrong_s = np.empty_like(overhead_s)
    for fold in set(folds.tolist()):
        seen = folds != fold
        solved = _solve(design[seen], overhead_s[seen], weight[seen])
        wrong_s[~seen] = design[~seen] @ solved - overhead_s[~seen]
    return float(np.sqrt(np.mean((wrong_s / step_s) ** 2)))
