"""Unions of intervals, worked out by hand."""

import polars as pl

from models.async_sgd.synthetic_trace import busy_intervals, union_of_intervals
from tests.models.async_sgd.frames import CHAIN_STEP, chain


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
