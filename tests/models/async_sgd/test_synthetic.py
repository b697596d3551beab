"""The chain of test_predictor: 20 kB down and 10 kB up at 100 kB/s in a step of 0.78 s."""

import pytest

from models.async_sgd.graph import Resource
from models.async_sgd.synthetic_trace import Interval, Trace
from models.async_sgd.timeline import active_links, simulate_trace
from tests.models.async_sgd.test_predictor import fitted
from tests.models.runs import scenario
from warehouse.records import BadInput


def test_workers_start_at_once_and_do_their_steps() -> None:
    trace = simulate_trace(fitted(), scenario(3), steps=4)
    assert trace.step_starts_s.shape == (3, 4)
    assert trace.step_starts_s[:, 0].tolist() == [0, 0, 0]
    assert trace.intervals == ()
    with pytest.raises(BadInput, match="batch_size"):
        simulate_trace(fitted(), scenario(2, batch_size=9), steps=4)


def test_links_are_active_while_they_send() -> None:
    rows = active_links(simulate_trace(fitted(), scenario(), steps=2, record=True))
    assert rows["resource"].to_list() == ["downlink"] * 2 + ["uplink"] * 2
    lasted_s = (rows["end_s"] - rows["start_s"]).to_list()
    assert lasted_s == pytest.approx([0.2, 0.2, 0.1, 0.1])
    assert rows["start_s"][1] - rows["start_s"][0] == pytest.approx(0.78)


def test_chunks_that_touch_are_one_stretch() -> None:
    chunks = [(0, 1.0, 2.0), (0, 2.0, 3.0), (1, 2.5, 4.0), (0, 5.0, 6.0), (0, 5.5, 5.8)]
    intervals = tuple(
        Interval(worker, 0, i, Resource.UPLINK, 0, start_s, end_s, 9.0)
        for i, (worker, start_s, end_s) in enumerate(chunks)
    )
    computed = Interval(0, 0, 9, Resource.WORKER, 0, 0.0, 9.0, 0.0)
    steps = simulate_trace(fitted(), scenario(), steps=1)
    trace = Trace(steps.step_starts_s, steps.step_ends_s, 0, (*intervals, computed))
    assert active_links(trace).select("worker", "start_s", "end_s").rows() == [
        (0, 1.0, 3.0),
        (0, 5.0, 6.0),
        (1, 2.5, 4.0),
    ]
