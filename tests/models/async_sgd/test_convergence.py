"""Two workers of 1 and 2 s a step; the throughput of windows is worked out by hand."""

import numpy as np
import polars as pl
import pytest

from models.async_sgd.sensitivity import (
    measured_throughput,
    simulated_throughput,
    throughput_of_starts,
)
from models.async_sgd.synthetic_trace import Trace

STARTS_S = np.array([[0, 1, 2, 3, 4], [0, 2, 4, 6, 8]], dtype=np.float64)


def test_windows_add_up_workers() -> None:
    assert throughput_of_starts(STARTS_S, 2).rows() == [(0, 1.5), (2, 1.5)]
    slower = throughput_of_starts(np.array([[0.0, 1.0, 3.0]]), 1)
    assert slower.rows() == [(0, 1.0), (1, 0.5)]


def test_too_few_steps_give_no_window() -> None:
    assert throughput_of_starts(STARTS_S, 5).is_empty()
    assert throughput_of_starts(STARTS_S[:, :0], 1).is_empty()


def test_measured_and_simulated_steps_are_judged_alike() -> None:
    rows = [
        (worker, step, 5_000_000 + round(1e6 * start_s))
        for worker, steps in enumerate(STARTS_S)
        for step, start_s in enumerate(steps)
        if (worker, step) != (1, 4)
    ]
    table = pl.DataFrame(rows, schema=["worker", "step", "start_us"], orient="row")
    trace = Trace(STARTS_S[:, :4], STARTS_S[:, :4] + 1, 0, ())
    seen, made = measured_throughput(table.reverse(), 1), simulated_throughput(trace, 1)
    assert seen["step"].to_list() == made["step"].to_list() == [0, 1, 2]
    assert seen["steps_per_s"].to_list() == pytest.approx(made["steps_per_s"].to_list())


def test_a_run_without_steps_has_no_series() -> None:
    assert measured_throughput(
        pl.DataFrame(schema={"worker": pl.Int16, "step": pl.Int32}), 1
    ).is_empty()
