"""The chain: compute 0.357 s, wire 0.3 s, 43 ms of the server, which overlap counts as negative."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.residuals import CAUSES, PARTS, attribute_errors, replay_errors, step_parts
from models.async_sgd.timeline import INTERVALS, STEPS, Timeline, replay_steps
from tests.models.async_sgd.captures import streams
from tests.models.async_sgd.fits import fitted
from tests.models.async_sgd.frames import RECEIVE, Tables, chain
from warehouse.records import BadInput


def timeline(lasted_us: int, *rows: tuple[str, int | None, int, int]) -> Timeline:
    """Return a step of (resource, server, start, end)."""
    made = [(0, 0, i, "", *row, None) for i, row in enumerate(rows)]
    steps = pl.DataFrame([(0, 0, 0, lasted_us)], schema=STEPS, orient="row")
    return Timeline(steps, pl.DataFrame(made, schema=INTERVALS, orient="row"))


def difference(
    made: Tables, *, packets: pl.DataFrame | None = None, shown: bool = False
) -> dict[str, float]:
    """Return what `alone` does; the model is only given the packets if they are `shown` to it."""
    model = fitted(made, packets if shown else None)
    (row,) = replay_errors(
        model,
        operations=made.operations,
        edges=made.edges,
        timings=made.timings,
        steps=made.steps,
        streams=packets,
    ).to_dicts()
    return row


def causes(compute_s: float = 0, wire_s: float = 0, overlap_s: float = 0) -> object:
    values = {"compute_s": compute_s, "wire_s": wire_s, "overlap_s": overlap_s}
    return {name: pytest.approx(value, abs=1e-6) for name, value in values.items()}


def test_computations_at_once_count_once_and_links_add_up() -> None:
    step = timeline(
        10_000_000,
        ("worker", None, 0, 3_000_000),
        ("worker", None, 1_000_000, 2_000_000),
        ("worker", None, 2_500_000, 4_000_000),
        ("worker", None, 8_000_000, 9_000_000),
        ("downlink", 0, 0, 2_000_000),
        ("downlink", 1, 0, 1_000_000),
        ("uplink", 0, 5_000_000, 6_000_000),
        ("ps", 0, 6_000_000, 8_000_000),
    )
    (row,) = step_parts(step).to_dicts()
    assert row == {"step": 0, "step_s": 10, "compute_s": 5, "wire_s": 4, "overlap_s": -1}


def test_steps_of_several_workers_have_no_parts() -> None:
    steps = pl.DataFrame([(0, 0, 0, 1), (1, 0, 0, 1)], schema=STEPS, orient="row")
    with pytest.raises(BadInput, match=r"expected those of 1 worker, found \[0, 1\]"):
        step_parts(Timeline(steps, pl.DataFrame(schema=INTERVALS)))


def test_parts_of_the_chain() -> None:
    rows = step_parts(replay_steps(fitted(chain(steps=2))))
    expected = {"step_s": 0.7, "compute_s": 0.357, "wire_s": 0.3, "overlap_s": -0.043}
    for step, row in enumerate(rows.to_dicts()):
        assert row == pytest.approx({"step": step, **expected})


def test_what_the_tracer_costs_is_no_difference() -> None:
    assert difference(chain(untraced_us=[600_000])) == causes()


def test_a_tracer_that_costs_more_than_is_taken_off_is_compute() -> None:
    # 0.3 s too long, of which half of 0.357 s is taken off.
    assert difference(chain(untraced_us=[400_000])) == causes(compute_s=0.3 - 0.357 / 2)


SLOW = streams(*((step, RECEIVE, 3_000, 223_000) for step in range(3)))
"""A downlink that took 220 ms where the link alone takes 200."""


def test_a_link_slower_than_measured_is_wire() -> None:
    # The model sends at the measured speed, and computes for longer: its step takes as long.
    expected = causes(compute_s=0.02, wire_s=-0.02)
    assert difference(chain(), packets=SLOW, shown=True) == expected


def test_a_cut_at_the_wrong_moment_takes_from_compute_what_it_gives_the_wire() -> None:
    # The model was not shown the packets, and takes 20 ms of transfer for parsing.
    assert difference(chain(), packets=SLOW) == causes(compute_s=0.02, wire_s=-0.02)


def test_the_rest_is_queueing() -> None:
    judged = pl.DataFrame(
        {"scenario_id": ["a"], "workers": [2], "predicted": [2.0], "measured": [2.5]}
    )
    differences = pl.DataFrame({"compute_s": [0.05], "wire_s": [-0.02], "overlap_s": [0.01]})
    assert attribute_errors(judged, differences).to_dicts() == [
        {
            "scenario_id": "a",
            "predicted_s": 1.0,
            "measured_s": 0.8,
            "compute_s": 0.05,
            "wire_s": -0.02,
            "overlap_s": 0.01,
            "queueing_s": pytest.approx(0.16),
        }
    ]


@given(st.lists(st.floats(0.01, 100), min_size=2, max_size=2), st.integers(1, 64))
def test_causes_add_up_to_the_difference(rates: list[float], workers: int) -> None:
    predicted, measured = rates
    judged = pl.DataFrame(
        {
            "scenario_id": ["a"],
            "workers": [workers],
            "predicted": [predicted],
            "measured": [measured],
        }
    )
    differences = pl.DataFrame({name: [0.1 * i] for i, name in enumerate(PARTS)})
    (row,) = attribute_errors(judged, differences).to_dicts()
    whole = row["predicted_s"] - row["measured_s"]
    assert sum(row[cause] for cause in CAUSES) == pytest.approx(whole)
    # The error of a rate is that of its inverse, over the predicted time.
    assert predicted / measured - 1 == pytest.approx(-whole / row["predicted_s"])


def test_a_throughput_of_nothing_is_refused() -> None:
    judged = pl.DataFrame(
        {"scenario_id": ["a"], "workers": [2], "predicted": [2.0], "measured": [0.0]}
    )
    nothing = pl.DataFrame({name: [0.0] for name in PARTS})
    with pytest.raises(
        BadInput, match=r"scenario a: expected throughputs above 0, found 2\.0 pred"
    ):
        attribute_errors(judged, nothing)
