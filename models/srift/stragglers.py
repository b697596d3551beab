"""The slowest of many nodes: what synchronous training waits for (section 4.3)."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_PIECES = np.arange(-9.0, 10.0, 3.0)
"""Ends of the pieces that are integrated one by one, in standard deviations of a group."""
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(20)


def expected_maximum(means: Floats, deviations: Floats, counts: NDArray[np.int64]) -> Floats:
    """Return the expected maximum of independent normal samples, one row at a time.

    In each row, `counts[g]` samples have the mean and the standard deviation of group g. Section
    4.3 draws `iters` iterations and averages their maxima; this is what that tends to, the integral
    of 1 − Π F_g(x)^counts[g], and has no noise that a search could mistake for a better choice.

    Args:
        means: [rows, groups], whatever where a count is 0.
        deviations: [rows, groups], may be 0.
        counts: [rows, groups], at least one above 0 in each row.

    Returns:
        [rows]
    """
    from scipy.special import (
        ndtr,  # a fifth of a second, which whoever reads forecasts need not wait
    )

    used = counts > 0
    mean = np.where(used, means, -np.inf).max(axis=1)
    # Relative to the largest mean, so that rounding does not grow with it.
    shift = np.where(used, means - mean[:, None], 0.0)
    spread = np.where(used, deviations, 0.0)
    low = np.where(used, shift + _PIECES[0] * spread, -np.inf).max(axis=1, keepdims=True)
    # A group's distribution rises between its own ends only: no piece holds a step inside.
    ends = (shift[:, :, None] + _PIECES * spread[:, :, None]).reshape(
        len(means), means.shape[1] * len(_PIECES)
    )
    edges = np.sort(np.maximum(ends, low))
    middle, half = (edges[:, 1:] + edges[:, :-1]) / 2, (edges[:, 1:] - edges[:, :-1]) / 2
    x = middle[:, :, None] + half[:, :, None] * _POINTS
    below = np.ones_like(x)
    for group in range(means.shape[1]):
        z = x - shift[:, group, None, None]
        scale = spread[:, group, None, None]
        with np.errstate(over="ignore"):
            cdf = np.where(scale > 0, ndtr(z / np.where(scale > 0, scale, 1.0)), z >= 0)
        below *= cdf ** counts[:, group, None, None]
    area = ((1.0 - below) * _WEIGHTS).sum(axis=2) * half
    # Below `low` the largest is certain to lie above: 1 − F is 1 there.
    expected: Floats = mean + low[:, 0] + area.sum(axis=1)
    return expected
