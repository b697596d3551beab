"""How often spot nodes are lost: rises of a price above the one on demand."""

import pytest

from forecasting.decisions.offers import DEFAULT_PER_NODE_HOUR, rises_per_hour


def test_each_rise_counts_once() -> None:
    """Above at the start is no rise; two later ones in 40 hours are one every 20 hours."""
    above = [True, False, True, True, False, True]
    found, basis = rises_per_hour(above, 40)
    assert found == pytest.approx(0.05)
    assert basis == "2 rises above the price on demand in 40 h"


def test_a_calm_price_leaves_the_default() -> None:
    """A fifth of all nodes is lost within a month of 730 hours."""
    found, basis = rises_per_hour([False] * 10, 200)
    assert found == DEFAULT_PER_NODE_HOUR
    assert (1 - DEFAULT_PER_NODE_HOUR / 100) ** 73_000 == pytest.approx(0.8, rel=1e-3)
    assert "0 rises above the price on demand in 200 h; at least" in basis
