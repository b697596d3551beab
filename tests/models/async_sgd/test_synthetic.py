"""The chain of test_predictor: 20 kB down and 10 kB up at 100 kB/s in a step of 0.78 s."""

import numpy as np
import polars as pl
import pytest

from models.async_sgd.synthetic_trace import Trace, busy_intervals, steps_per_s, union_of_intervals
from tests.models.async_sgd.frames import CHAIN_STEP, chain
from warehouse.records import BadInput


def test_intervals_that_touch_or_overlap_are_one() -> None:
    rows = pl.DataFrame(
        [("a", 5, 6), ("a", 0, 4), ("a", 1, 2), ("a", 4, 5), ("a", 8, 9), ("b", 5, 7)],
        schema=["what", "from", "to"],
        orient="row",
    )
    assert union_of_intervals(rows, ["what"], "from", "to").rows() == [
        ("a", 0, 6),
        ("a", 8, 9),
        ("b", 5, 7),
    ]


def test_steps_are_laid_end_to_end() -> None:
    """A step of the chain lasts 700 ms: reading from 1 to 3, receiving from 3 to 253 ms, ..."""
    made = chain(steps=3)
    rows = busy_intervals(made.operations, made.timings, 2)
    length_us = max(map(sum, CHAIN_STEP.values()))
    assert length_us == 700_000
    downlink = rows.filter(resource="downlink").select("step", "start_us", "end_us").rows()
    assert downlink == [(0, 3_000, 253_000), (1, 703_000, 953_000)]
    server = rows.filter(resource="ps", step=0).select("start_us", "end_us").rows()
    assert server == [(1_000, 3_000), (690_000, 700_000)]


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
