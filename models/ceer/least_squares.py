"""Least squares of which no coefficient is negative, so that no prediction of sizes is."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls
from statsmodels.regression.linear_model import WLS

Array = NDArray[np.float64]

_LEAST_US = 1.0
_ROUNDS = 4


def solve(design: Array, us: Array, count: Array, *, relative: bool) -> Array:
    """Return the coefficients, none below 0.

    Args:
        design: [rows, terms], none below 0.
        us: times, microseconds.
        count: how often each row counts.
        relative: errors count relative to what is predicted, found in a few rounds. Relative to
            what was measured, those above it would count more than those below it, and sums would
            come out too small. Otherwise errors count in microseconds.
    """
    solved = _non_negative(design, us, _weight(us, count, relative))
    for _ in range(_ROUNDS if relative else 0):
        solved = _non_negative(design, us, _weight(design @ solved, count, relative))
    return solved


def solve_with_errors(
    design: Array, us: Array, count: Array, *, relative: bool
) -> tuple[Array, Array]:
    """Return what `solve` does, and standard errors; 0 and 0 for terms that would be negative.

    Where the condition holds terms at 0, the others are plain weighted least squares.
    """
    solved = solve(design, us, count, relative=relative)
    used = solved > 0
    coefficients, errors = np.zeros(len(used)), np.zeros(len(used))
    if used.any():
        expected_us = design @ solved if relative else us
        weight = _weight(expected_us, count, relative)
        used = _non_negative(design, us, weight) > 0
        fitted = WLS(us, design[:, used], weights=weight).fit()
        # Rounding aside, they are above 0 already.
        coefficients[used] = np.maximum(fitted.params, 0.0)
        if len(us) > used.sum():
            errors[used] = fitted.bse
    return coefficients, errors


def _weight(expected_us: Array, count: Array, relative: bool) -> Array:
    return count / np.maximum(expected_us, _LEAST_US) ** 2 if relative else count


def _non_negative(design: Array, us: Array, weight: Array) -> Array:
    root = np.sqrt(weight)
    scaled = design * root[:, None]
    size = np.sqrt((scaled * scaled).sum(axis=0))
    size[size == 0] = 1.0
    solved, _ = nnls(scaled / size, us * root, maxiter=100 * len(size))
    return np.asarray(solved / size, dtype=np.float64)
