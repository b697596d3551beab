"""Seconds of a step as a sum of terms with coefficients of 0 or more, by relative error.

Source: the form is Ernest's (Venkataraman et al., NSDI 2016, section 3.2); the terms are ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import scipy
from numpy.typing import NDArray

from warehouse.records import BadInput

Floats = NDArray[np.float64]
FEWEST_RUNS = 3
_DRAWN = 0.02
"""How strongly coefficients, of terms scaled alike, are drawn to 0, in relative errors."""


@dataclass(frozen=True, eq=False)
class LinearWork:
    """Coefficients of `models.predictddl.work.TERMS`.

    Nodes of several groups wait for the slowest: of a mix, the group with the most seconds counts.
    """

    coefficients: Floats

    @classmethod
    def fit(cls, terms: Sequence[Floats], step_s: Floats) -> Self:
        """Fit to measured steps.

        Which group of a mix is the slowest is found in turns with the coefficients, from the first.

        Args:
            terms: of each run, [groups, terms].
            step_s: of each run.

        Raises:
            BadInput: fewer runs than `FEWEST_RUNS`.
        """
        if len(terms) < FEWEST_RUNS:
            raise BadInput(
                f"expected {FEWEST_RUNS} measured runs or more to fit to, found {len(terms)}; list "
                "more under train of a study, and `stepcast run`"
            )
        slowest = np.array([one[0] for one in terms])
        for _ in range(5):
            design = slowest / step_s[:, None]
            size = np.linalg.norm(design, axis=0)
            scale = np.where(size > 0, size, 1.0)
            drawn = _DRAWN * np.sqrt(len(terms)) * np.eye(len(scale))
            matrix = np.vstack([design / scale, drawn])
            found, _ = scipy.optimize.nnls(
                matrix, np.concatenate([np.ones(len(terms)), np.zeros(len(scale))])
            )
            coefficients = found / scale
            chosen = np.array([one[np.argmax(one @ coefficients)] for one in terms])
            if np.array_equal(chosen, slowest):
                break
            slowest = chosen
        return cls(coefficients)

    def step_s(self, terms: Floats) -> float:
        """Return the seconds of a step, whose groups have these terms: [groups, terms]."""
        return max(float((terms @ self.coefficients).max()), 1e-6)

    def parts(self, terms: Floats) -> Floats:
        """Return the part of each term in a step, of the slowest group: [terms] of sum 1."""
        found = terms * self.coefficients
        slowest: Floats = found[np.argmax(found.sum(axis=1))]
        return slowest / max(float(slowest.sum()), 1e-12)
