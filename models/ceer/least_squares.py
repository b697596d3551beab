"""Least squares of which no coefficient is negative, so that no prediction of sizes is."""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Weights = Literal["equal", "balanced", "relative"]
"""What errors count relative to: nothing, as in the paper; the root of the prediction, so that sums
of times come out as measured and small ones count too; the prediction."""

_POWER = {"equal": 0, "balanced": 1, "relative": 2}
_LEAST_US = 1.0
_LEAST_SIZE = 1e-12
"""Less than a millionth of a byte, in megabytes: of what is smaller no slope is told."""
_ROUNDS = 3


def solve(design: Array, us: Array, count: Array, weights: Weights) -> Array:
    """Return the coefficients, none below 0; 0 of terms that are nothing in all rows.

    Args:
        design: [rows, terms], none below 0.
        us: times, microseconds.
        count: how often each row counts.
        weights: relative to predictions they are found in a few rounds. Relative to what was
            measured, what is above the line would count more than what is below it, and sums would
            come out too small.
    """
    solved = _non_negative(design, us, _weight(us, count, weights))
    for _ in range(_ROUNDS if _POWER[weights] else 0):
        solved = _non_negative(design, us, _weight(design @ solved, count, weights))
    return solved


def solve_with_errors(
    design: Array, us: Array, count: Array, weights: Weights
) -> tuple[Array, Array]:
    """Return what `solve` does, and standard errors; 0 and 0 for terms that would be negative.

    Where the condition holds terms at 0, the others are plain weighted least squares. Errors are 0
    too where terms cannot be told apart, or there are no more rows than terms.
    """
    solved = solve(design, us, count, weights)
    weight = _weight(design @ solved, count, weights)
    used = _non_negative(design, us, weight) > 0
    coefficients, errors = np.zeros(len(used)), np.zeros(len(used))
    terms = int(used.sum())
    if terms == 0 or np.linalg.matrix_rank(design[:, used]) < terms:
        return solved, errors
    from statsmodels.regression.linear_model import WLS  # takes a second to load

    fitted = WLS(us, design[:, used], weights=weight).fit()
    # Rounding aside, they are above 0 already.
    coefficients[used] = np.maximum(fitted.params, 0.0)
    if len(us) > terms:
        errors[used] = fitted.bse
    return coefficients, errors


def _weight(expected_us: Array, count: Array, weights: Weights) -> Array:
    return np.asarray(count / np.maximum(expected_us, _LEAST_US) ** _POWER[weights])


def _non_negative(design: Array, us: Array, weight: Array) -> Array:
    from scipy.optimize import nnls  # half a second, which only fits need

    root = np.sqrt(weight)
    scaled = design * root[:, None]
    size = np.sqrt((scaled * scaled).sum(axis=0))
    size[design.max(axis=0) < _LEAST_SIZE] = np.inf
    solved, _ = nnls(scaled / size, us * root, maxiter=100 * len(size))
    return np.asarray(solved / size, dtype=np.float64)
