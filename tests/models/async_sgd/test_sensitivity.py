"""Throughput of workers from their starts, measured and simulated."""

import numpy as np
import polars as pl
import pytest

from models.async_sgd.synthetic_trace import (
    Trace,
    measured_throughput,
    simulated_throughput,
    throughput_of_starts,
)

STARTS_S = np.array([[0, 1, 2, 3, 4], [0, 2, 4, 6, 8]], dtype=np.float64)


def test_windows_add_up_workers() -> None:
    assert throughput_of_starts(STARTS_S, 2).rows() == [(0, 1.5), (2, 1.5)]
    slower = throughput_of_starts(np.array([[0.0, 1.0, 3.0]]), 1)
    assert slower.rows() == [(0, 1.0), (1, 0.5)]


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
