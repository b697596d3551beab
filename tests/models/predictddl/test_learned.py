"""Regressors of what a linear model leaves."""

import numpy as np

from models.predictddl.learned import GaussianProcess, Rows


def test_a_search_that_leaves_what_numbers_can_say_goes_on_from_where_they_can() -> None:
    """Before, a covariance of no finite numbers ended a fit."""
    rows = Rows(
        np.repeat(np.arange(10), 2),
        np.random.default_rng(0).normal(size=(20, 3)),
        np.tile([[1.0], [2.0]], (10, 1)),
    )
    for size in (1.0, 1e150):
        found = GaussianProcess(rows, size * np.sin(np.arange(20)))
        mean, deviation = found.predict(rows)
        assert np.isfinite(mean).all()
        assert (deviation > 0).all()
