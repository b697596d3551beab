"""Timelines of the chain: read 3 ms, receive 0.2 s, parse and compute 0.357 s, send 0.1 s, 40 ms.

Then the client pauses 80 ms.
"""

import polars as pl
import pytest

from models.async_sgd import timeline
from models.async_sgd.synthetic_trace import steps_per_s
from models.async_sgd.timeline import (
    INTERVALS,
    STEPS,
    Timeline,
    simulate_trace,
)
from tests.models.async_sgd.frames import chain
from tests.models.async_sgd.graphs import D, Op, P, W, job, run
from tests.models.async_sgd.test_predictor import fitted
from tests.models.runs import scenario
from warehouse.records import BadInput

MS = 1_000


def spans(shown: Timeline, resource: str) -> list[tuple[int, int]]:
    """Return (start, end) in ms of what takes time on a resource."""
    rows = shown.intervals.filter(
        pl.col("resource") == resource, pl.col("end_us") > pl.col("start_us")
    )
    return [(start // MS, end // MS) for start, end in rows.select("start_us", "end_us").rows()]


def test_a_simulation_is_the_one_behind_the_prediction() -> None:
    model, case = fitted(chain()), scenario(2)
    trace = simulate_trace(model, case, seed=1, record=True)
    (group,) = model.simulation(case, 1)
    steps = group.options.steps
    assert len(trace.intervals) == trace.events == 2 * steps * 9
    values = [steps_per_s(simulate_trace(model, case, seed=seed), 10) for seed in range(3)]
    assert model.predict([case])["value"].item() == pytest.approx(sum(values) / 3)


def test_steps_of_one_worker_follow_each_other() -> None:
    model = fitted(chain())
    trace = simulate_trace(model, scenario(1), record=True)
    shown = timeline.timeline_of_trace([model.profiles[0].graph], trace, skip=10, count=3)
    assert shown.steps.schema == STEPS
    assert shown.intervals.schema == INTERVALS
    assert shown.steps.rows() == [
        (0, 10 + i, 780 * MS * i, 780 * MS * i + 700 * MS) for i in range(3)
    ]
    first = shown.intervals.filter(step=10)
    assert spans(Timeline(shown.steps, first), "downlink") == [(3, 203)]
    assert spans(Timeline(shown.steps, first), "worker") == [(203, 253), (253, 560)]
    assert spans(Timeline(shown.steps, first), "uplink") == [(560, 660)]
    assert spans(Timeline(shown.steps, first), "ps") == [(1, 3), (660, 690), (690, 700)]


def test_columns_say_what_an_interval_is() -> None:
    shown = timeline.interval_frame(
        [job(Op(D, 20), Op(W, 3, (0,)), Op(P, 1, (1,)))[0]],
        run(Op(D, 20), Op(W, 3, (0,)), Op(P, 1, (1,)), record=True).intervals,
        since_s=1.0,
    )
    assert shown.rows() == [
        (0, 0, 0, "downlink0", "downlink", 0, -1_000_000, 1_000_000, 20.0),
        (0, 0, 1, "worker1", "worker", None, 1_000_000, 4_000_000, None),
        (0, 0, 2, "ps2", "ps", 0, 4_000_000, 5_000_000, None),
    ]


def test_workers_are_shown_at_the_same_time() -> None:
    ops = (Op(D, 10), Op(W, 1, (0,)))
    trace = run(*ops, workers=2, steps=8, client_gap_s=(0.0, 0.5), record=True, seed=3)
    shown = timeline.timeline_of_trace([job(*ops)[0]] * 2, trace, skip=2, count=4)
    opens_s = trace.step_starts_s[:, 2].max()
    assert shown.steps["start_us"].min() == 0
    for worker in (0, 1):
        own_steps = shown.steps.filter(worker=worker)
        first = own_steps["step"][0]
        assert trace.step_starts_s[worker, first] >= opens_s
        assert first == 0 or trace.step_starts_s[worker, first - 1] < opens_s
        assert own_steps["step"].to_list() == [first, first + 1, first + 2, first + 3]
    bounds = shown.intervals.join(shown.steps, on=["worker", "step"], suffix="_step")
    assert bounds.height == 2 * 4 * 2
    within = (pl.col("start_us") >= pl.col("start_us_step")) & (
        pl.col("end_us") <= pl.col("end_us_step")
    )
    assert bounds.select(within.all()).item()


@pytest.mark.parametrize(
    ("skip", "count", "message"),
    [
        (4, 1, "expected 0 to 3 steps to be left out, found 4"),
        (1, 4, "4 steps per worker were simulated, of which 3 of worker 0 are left"),
    ],
)
def test_more_steps_than_were_simulated_are_refused(skip: int, count: int, message: str) -> None:
    trace = run(Op(W, 1), steps=4, record=True)
    with pytest.raises(BadInput, match=message):
        timeline.timeline_of_trace([job(Op(W, 1))[0]], trace, skip=skip, count=count)
