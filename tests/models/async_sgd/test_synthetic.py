"""The chain of test_predictor: 20 kB down and 10 kB up at 100 kB/s in a step of 0.78 s."""

import numpy as np
import pytest

from models.async_sgd.synthetic_trace import (
    Trace,
    steps_per_s,
)
from warehouse.records import BadInput


def trace(starts_s: list[list[float]], ends_s: list[list[float]]) -> Trace:
    return Trace(np.array(starts_s), np.array(ends_s), events=0, intervals=())


def test_steps_count_by_their_fraction_inside_the_window() -> None:
    """The window is 2 s to 6 s: the second worker's warm-up ends, the first one finishes.

    The first does 2 whole steps in it; the second half of its last and one whole, in 2 s to 6 s.
    """
    made = trace([[0, 2, 4], [0, 2, 4]], [[2, 4, 6], [2, 4, 8]])
    assert steps_per_s(made, warm_up_steps=1) == pytest.approx((2 + 1 + 0.5) / 4)


def test_a_worker_may_do_fewer_steps_than_others() -> None:
    """From 2 s, when the slow one has left a step behind, to its end at 4 s."""
    made = trace([[0, 1, 2, 3, 4], [0, 2] + [np.nan] * 3], [[1, 2, 3, 4, 5], [2, 4] + [np.nan] * 3])
    assert steps_per_s(made, warm_up_steps=1) == pytest.approx(3 / 2)
    with pytest.raises(BadInput, match="expected a warm-up of 0 to 1 steps of 2, found 2"):
        steps_per_s(made, warm_up_steps=2)
