"""The time of one type of operation on one node type, from what it works on (section IV-B)."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pydantic import Field

from models.ceer.features import NAMES
from warehouse.records import Record

Array = NDArray[np.float64]
Forms = Mapping[str, tuple[str, ...]]
_SIZES = ("input", "filter", "output")
_SQUARES = tuple(f"{a}*{b}" for i, a in enumerate(_SIZES) for b in _SIZES[i:])
PAPER_FORMS: Forms = {
    "constant": ("1",),
    "proportional": ("input",),
    "linear": ("1", "input"),
    "quadratic": ("1", "input", "input*input"),
    "linear in all sizes": ("1", *_SIZES, "stride", "padding"),
    "quadratic in all sizes": ("1", *_SIZES, "stride", "padding", *_SQUARES),
}
"""Linear and quadratic in what the paper names: size of inputs, filter, stride, padding."""
FORMS: Forms = {
    **PAPER_FORMS,
    "work": ("1", "work"),
    "work and sizes": ("1", *_SIZES, "work"),
    "work inside and sizes": ("1", *_SIZES, "inside"),
}
"""With forms past the paper: a convolution takes as long as it multiplies, if that is enough."""
_OF_TWO: Forms = {"proportional": PAPER_FORMS["proportional"]}
_PREFERENCE = 0.05
_EXACT = 1e-9
_FOLDS = 5
_LEAST_US = 1.0


class Regression(Record):
    """A fitted form: the sum of coefficients (microseconds) times terms, none below 0.

    `sum_error` is the root mean square of relative errors of the sum over a DNN of operations that
    the fit had not seen; None where there was too little to leave out. `us_per_input_mb` is all
    their time over all their input.
    """

    type: str
    node_type: str
    form: str
    terms: tuple[str, ...]
    coefficients_us: tuple[float, ...]
    sum_error: float | None
    us_per_input_mb: float = Field(ge=0)

    def predict_us(self, features: Mapping[str, Array]) -> Array:
        """Return the time of each operation, microseconds, 0 or more.

        Args:
            features: `NAMES` → one value per operation.
        """
        us: Array = _design(self.terms, features) @ np.array(self.coefficients_us)
        return us


# Least squares of which no coefficient is negative, so that no prediction of sizes is.


def fit(
    points: pl.DataFrame, *, operation_type: str, node_type: str, published: bool = False
) -> Regression:
    """Fit the form that predicts best what it has not seen; simpler ones are preferred.

    Whole DNNs are left out where there are three or more. A form is taken if no later one has an
    error that is smaller by more than 5 % of it. No coefficient is negative: so no prediction is,
    and none falls with size. Two operations leave nothing to choose by: of those, times are
    proportional to inputs if these differ, unless as published.

    Args:
        points: `dnn`, `count` (how often in a step), `mean_us` and the columns `NAMES`; one row per
            operation.
        operation_type: canonical type of all of them.
        node_type: where they were measured.
        published: forms are those of the paper alone, and errors count alike; else they count
            relative to the root of the prediction, so that sums of times come out as measured and
            small ones count too.

    Source: Hafeez, Gandhi, Ceer, section IV-B.
    """
    us, count = points["mean_us"].to_numpy(), points["count"].to_numpy()
    features = {name: points[name].to_numpy() for name in NAMES}
    offered = PAPER_FORMS if published else FORMS
    if not published and points.height == points["input"].n_unique() == 2:
        offered = _OF_TWO
    folds = _folds(points["dnn"])
    form, left_out_us = _chosen(offered, features, us, count, folds, published)
    terms = _varying(offered[form], features)
    design = _design(terms, features)
    coefficients = refit(design, us, count, published)
    input_mb = float((count * features["input"]).sum())
    return Regression(
        type=operation_type,
        node_type=node_type,
        form=form,
        terms=terms,
        coefficients_us=tuple(coefficients.tolist()),
        sum_error=_error(us, left_out_us, count, folds),
        us_per_input_mb=float((count * us).sum()) / input_mb if input_mb > 0 else 0.0,
    )


def _design(terms: Sequence[str], features: Mapping[str, Array]) -> Array:
    ones = np.ones_like(features["input"])
    columns = []
    for term in terms:
        column = ones
        for name in term.split("*"):
            column = column if name == "1" else column * features[name]
        columns.append(column)
    return np.column_stack(columns)


def _folds(dnn: pl.Series) -> NDArray[np.int64]:
    """Return the fold of each row: its DNN, or turns where there are fewer than three DNNs."""
    if dnn.n_unique() >= 3:
        return dnn.rank("dense").cast(pl.Int64).to_numpy() - 1
    return np.arange(len(dnn)) % min(_FOLDS, len(dnn))


def _chosen(
    offered: Forms,
    features: Mapping[str, Array],
    us: Array,
    count: Array,
    folds: NDArray[np.int64],
    published: bool,
) -> tuple[str, Array | None]:
    """Return the name of a form, and what it says of each row without having seen its fold.

    Where too few rows are left to try any, the first one, which predicts nothing.
    """
    least = min((folds != fold).sum() for fold in set(folds.tolist()))
    tried: dict[str, tuple[float, Array]] = {}
    for form, named in offered.items():
        terms = _varying(named, features)
        if len(terms) <= least and terms not in [
            _varying(offered[other_form], features) for other_form in tried
        ]:
            design = _design(terms, features)
            left_out_us = np.empty_like(us)
            for fold in set(folds.tolist()):
                seen, unseen = folds != fold, folds == fold
                solved = solve(design[seen], us[seen], count[seen], published)
                left_out_us[unseen] = design[unseen] @ solved
            wrong_us = count * np.abs(left_out_us - us)
            tried[form] = float(wrong_us.sum() / max((count * us).sum(), _LEAST_US)), left_out_us
    if not tried:
        return next(iter(offered)), None
    best = min(error for error, _ in tried.values())
    enough = best / (1 - _PREFERENCE) + _EXACT
    form = next(form for form, (error, _) in tried.items() if error <= enough)
    return form, tried[form][1]


def _varying(terms: Sequence[str], features: Mapping[str, Array]) -> tuple[str, ...]:
    """Leave out terms of features that are the same throughout: nobody knows what they do."""
    kept = tuple(t for t in terms if all(n == "1" or np.ptp(features[n]) for n in t.split("*")))
    return kept or ("1",)


def _error(
    us: Array, left_out_us: Array | None, count: Array, groups: NDArray[np.int64]
) -> float | None:
    """Return the root mean square of relative errors of sums over groups of rows."""
    if left_out_us is None:
        return None
    measured = np.bincount(groups, count * us)
    predicted = np.bincount(groups, count * left_out_us)
    relative = (predicted - measured) / np.maximum(measured, _LEAST_US)
    return float(np.sqrt(np.mean(relative**2)))


_LEAST_SIZE = 1e-12
"""Less than a millionth of a byte, in megabytes: of what is smaller no slope is told."""
_ROUNDS = 3


def solve(design: Array, us: Array, count: Array, published: bool) -> Array:
    """Return the coefficients, none below 0; 0 of terms that are nothing in all rows.

    Args:
        design: [rows, terms], none below 0.
        us: times, microseconds.
        count: how often each row counts.
        published: errors count alike. Weights relative to predictions are found in a few rounds:
            relative to what was measured, what is above the line would count more than what is
            below it, and sums would come out too small.
    """
    solved = _non_negative(design, us, _weight(us, count, published))
    for _ in range(0 if published else _ROUNDS):
        solved = _non_negative(design, us, _weight(design @ solved, count, published))
    return solved


def refit(design: Array, us: Array, count: Array, published: bool) -> Array:
    """Return what `solve` does; terms above 0 by plain weighted least squares, if told apart."""
    solved = solve(design, us, count, published)
    weight = _weight(design @ solved, count, published)
    used = _non_negative(design, us, weight) > 0
    if not used.any() or np.linalg.matrix_rank(design[:, used]) < used.sum():
        return solved
    from statsmodels.regression.linear_model import WLS  # takes a second to load

    coefficients = np.zeros(len(used))
    # Rounding aside, they are above 0 already.
    coefficients[used] = np.maximum(WLS(us, design[:, used], weights=weight).fit().params, 0.0)
    return coefficients


def _weight(expected_us: Array, count: Array, published: bool) -> Array:
    return count if published else np.asarray(count / np.maximum(expected_us, _LEAST_US))


def _non_negative(design: Array, us: Array, weight: Array) -> Array:
    from scipy.optimize import nnls  # half a second, which only fits need

    root = np.sqrt(weight)
    scaled = design * root[:, None]
    size = np.sqrt((scaled * scaled).sum(axis=0))
    size[design.max(axis=0) < _LEAST_SIZE] = np.inf
    solved, _ = nnls(scaled / size, us * root, maxiter=100 * len(size))
    return np.asarray(solved / size, dtype=np.float64)
