"""Which runs Ernest asks for: those whose coefficients would be known best for their cost.

Source: Venkataraman et al., NSDI 2016, section 3.3: choose weights λ of runs so that the trace of
the inverse of Σ λ x xᵀ is least while Σ λ cost is within a budget (A-optimal design), and take
those whose weight is not small.
"""

from collections.abc import Sequence

import numpy as np
import scipy
from numpy.typing import NDArray

from models.ernest.features import terms

Floats = NDArray[np.float64]
_TAKEN = 0.1
"""Least weight of a run that is taken."""
_RIDGE = 1e-6


def chosen(
    machines: Sequence[int], images: Sequence[int], budget: float = 0.5
) -> tuple[tuple[int, int], ...]:
    """Return pairs of machines, and images of each, that are worth running.

    Args:
        machines: numbers of them that may be tried.
        images: of each machine, that may be tried.
        budget: part of the machine time that all of them would take.
    """
    points = [(count, each) for count in machines for each in images]
    found = weights(machines, images, budget)
    return tuple(point for point, weight in zip(points, found, strict=True) if weight > _TAKEN)


def weights(machines: Sequence[int], images: Sequence[int], budget: float) -> Floats:
    """Return the weight of each pair of machines and images, in the order of `product`.

    Args:
        machines: as in `chosen`.
        images: as in `chosen`.
        budget: as in `chosen`.
    """
    points = [(count, each) for count in machines for each in images]
    rows = np.array([terms(count, each) for count, each in points])
    rows = rows / np.linalg.norm(rows, axis=0)
    cost = np.array([count * each for count, each in points], float)
    cost = cost / cost.sum()

    def uncertainty(given: Floats) -> float:
        information = (rows.T * given) @ rows + _RIDGE * np.eye(rows.shape[1])
        return float(np.trace(np.linalg.inv(information)))

    found = scipy.optimize.minimize(
        uncertainty,
        np.full(len(points), min(budget, 1.0)),
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(points),
        constraints={"type": "ineq", "fun": lambda given: budget - given @ cost},
        options={"maxiter": 300},
    )
    return np.asarray(found.x)
