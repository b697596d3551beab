"""async_sgd as published, on a job whose steps can be told by hand."""

from dataclasses import replace
from typing import Any

import pytest

from models.async_sgd.as_published import AsPublished
from models.async_sgd.systems import ASYNC_SGD_PAPER
from models.system import NotCovered
from tests.models.async_sgd.captured_job import WINDOW_BYTES, A, B, raw_tables
from tests.models.async_sgd.oracle.simulator import simulate
from tests.models.runs import scenario

ALONE_S = 1.320
"""Read, A and B down, parse B, compute, C and D up, parse D, apply; no gap between steps."""


def fitted(**tables: Any) -> AsPublished:
    """Return the model, which simulates few steps: all are alike."""
    model = ASYNC_SGD_PAPER.fit({**raw_tables(), **tables})
    assert isinstance(model, AsPublished)
    few = model.parameters.settings.model_copy(update={"simulated_operations": 20_000})
    return replace(model, parameters=model.parameters.model_copy(update={"settings": few}))


def forecast(model: AsPublished, workers: int) -> float:
    return float(model.predict([scenario(workers)])["value"][0])


def test_window_and_lines_are_those_of_the_packets() -> None:
    model = fitted()
    assert model.parameters.settings.window_bytes == WINDOW_BYTES
    assert model.parameters.settings.warm_up_steps == 50
    worker, server = model.fitted.overheads
    assert (worker.alpha_s_per_byte, worker.beta_s) == pytest.approx((1e-6, 0.010))
    assert (server.alpha_s_per_byte, server.beta_s) == pytest.approx((2e-6, 0.005))


def test_two_workers_in_step_halve_the_link_for_ever() -> None:
    """Equal shares of equal steps: all that is sent takes twice as long (section 3.1)."""
    sent_s = 0.600 + 0.400
    assert forecast(fitted(), 2) == pytest.approx(2 / (ALONE_S + sent_s), rel=1e-6)


def test_a_stream_longer_than_win_is_suspended_once() -> None:
    """WIN = 5 kB: A and B send 5 each, then all that is left of A, then of B: A ends at 251 ms.

    Nobody waits for A alone, and the last of the uplink is D before and after.
    """
    model = fitted(**raw_tables(5_000))
    (workers,) = model.simulation(scenario(1), seed=0)
    recorded = replace(workers.options, record=True)
    trace = simulate(workers.graph, workers.steps, recorded)
    first = [interval for interval in trace.intervals if interval.step == 0]
    ends = [
        max(interval.end_s for interval in first if interval.operation == which) for which in (A, B)
    ]
    assert ends == pytest.approx([0.251, 0.601], abs=1e-6)
    assert forecast(model, 1) == pytest.approx(1 / ALONE_S, rel=1e-6)


def test_links_of_another_speed_change_what_is_sent_and_not_what_is_parsed() -> None:
    """Ten times as fast: 100 ms of sending instead of 1,000."""
    fast = float(fitted().predict([scenario(1, link_mbps=8.0)])["value"][0])
    slow = float(fitted().predict([scenario(1)])["value"][0])
    bytes_sent = 60e3 + 40e3
    spared_s = bytes_sent / 100e3 * 0.9
    assert 1 / slow - 1 / fast == pytest.approx(spared_s, rel=1e-6)


def test_it_is_left_out_where_nothing_was_captured() -> None:
    tables = raw_tables()
    with pytest.raises(NotCovered, match="none were captured; profile with tf_trace"):
        fitted(stream=tables["stream"].clear(), http2_frame=tables["http2_frame"].clear())
    with pytest.raises(NotCovered, match="none were captured"):
        fitted(http2_frame=tables["http2_frame"].clear())
