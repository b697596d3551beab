"""The chain's largest transfer has 20 kB."""

import numpy as np
import polars as pl
import pytest

from models.async_sgd.sensitivity import (
    HYPOTHETICAL_BYTES,
    SEEDS,
    largest_transfer_bytes,
    measured_throughput,
    simulated_throughput,
    throughput_of_starts,
    window_sensitivity,
)
from models.async_sgd.synthetic_trace import Trace
from tests.models.async_sgd.test_predictor import QUICK, fitted, value, varied
from tests.models.runs import scenario


def test_windows_longer_than_every_tensor_change_nothing() -> None:
    rows = window_sensitivity(fitted(varied()), 4 * 2**20, workers=(2,))
    assert rows["window"].to_list() == ["none", *["hypothetical"] * 3]
    assert rows["window_bytes"].to_list() == [None, *[HYPOTHETICAL_BYTES] * 3]
    assert rows["factor"].to_list() == [None, 0.5, 1.0, 1.5]
    assert rows["change_percent"].to_list() == [0.0] * 4
    two = QUICK.model_copy(update={"seeds": SEEDS})
    assert rows["value"][0] == value(fitted(varied(), two), scenario(2))


def test_a_window_within_a_tensor_is_simulated() -> None:
    model = fitted(varied())
    assert largest_transfer_bytes(model) == 20_000
    rows = window_sensitivity(model, 16_000, workers=(1, 2))
    assert rows["window"].unique(maintain_order=True).to_list() == ["none", "announced"]
    assert rows["bytes"].to_list() == [None, 8_000, 16_000, 24_000] * 2
    # A worker with one stream at a time has nobody to let pass.
    assert rows.filter(workers=1)["change_percent"].to_list() == pytest.approx([0] * 4, abs=1e-9)
    assert rows.filter(workers=2)["change_percent"][3] == 0


def test_an_unknown_window_is_replaced() -> None:
    rows = window_sensitivity(fitted(varied()), None, workers=(2,))
    assert rows["window_bytes"].to_list() == [None, *[HYPOTHETICAL_BYTES] * 3]


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
