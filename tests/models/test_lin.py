"""Mean value analysis against closed forms, and a fit whose figures can be worked out by hand."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.lin import Lin, fit, mva
from tests.models.async_sgd.frames import RUN_ID, chain
from tests.models.runs import links, run_tables, samples, scenario
from warehouse.records import BadInput, Scenario

DEMANDS = st.lists(st.floats(0.001, 10), min_size=1, max_size=4)


def fitted(untraced_us: int = 1_000_000, streams: pl.DataFrame | None = None) -> Lin:
    """Fit to steps of 3 ms, downlink 200, computation 357, uplink 100, update 40 ms."""
    made = chain(untraced_us=[untraced_us])
    runs, scenarios = run_tables()
    return fit(
        runs=runs,
        scenarios=scenarios,
        operations=made.operations,
        timings=made.timings,
        steps=made.steps,
        samples=samples({"client_gap_s": [0.05]}),
        links=links([100e3], [100e3]),
        streams=streams,
    )


@pytest.mark.parametrize("customers", [1, 2, 7])
def test_a_single_queue_is_always_busy(customers: int) -> None:
    assert mva([0.25], 0.0, customers) == pytest.approx(4.0)


@pytest.mark.parametrize("customers", [1, 2, 7])
def test_balanced_queues_have_a_closed_form(customers: int) -> None:
    """X = n / (D (n + K - 1)) with K queues of demand D (Lazowska et al., 1984, section 5.4)."""
    assert mva([0.5] * 3, 0.0, customers) == pytest.approx(customers / (0.5 * (customers + 2)))


@given(demands_s=DEMANDS, delay_s=st.floats(0, 10), customers=st.integers(1, 30))
def test_throughput_grows_within_its_bounds(
    demands_s: list[float], delay_s: float, customers: int
) -> None:
    now, more = (mva(demands_s, delay_s, count) for count in (customers, customers + 1))
    assert now <= more * (1 + 1e-12)
    alone_s = delay_s + sum(demands_s)
    assert more <= min(1 / max(demands_s), (customers + 1) / alone_s) * (1 + 1e-12)


def test_one_worker_takes_as_long_as_its_profile() -> None:
    model = fitted()
    assert model.parameters.delay_s == pytest.approx(0.003 + 0.357 + 0.05)
    predicted = model.predict([scenario(workers) for workers in (1, 2, 50)])["value"]
    assert predicted[0] == pytest.approx(1 / 0.75)
    queued_s = sum(s * (1 + s / 0.75) for s in (0.2, 0.1, 0.04))
    assert predicted[1] == pytest.approx(2 / (0.41 + queued_s))
    assert predicted[2] == pytest.approx(1 / 0.2, rel=1e-6)


def test_the_cost_of_tracing_is_the_workers() -> None:
    # The traced steps end after 700 ms, untraced ones after 600.
    assert fitted(600_000).parameters.delay_s == pytest.approx(0.31)
    assert fitted(100_000).parameters.delay_s == 0


def test_captured_packets_are_used() -> None:
    times = {"first_us": [100_000, 600_000], "last_us": [300_000, 650_000]}
    streams = pl.DataFrame({"run_id": [RUN_ID] * 2, "step": [0, 0], "operation": [2, 5]} | times)
    streams = streams.with_columns(pl.col("first_us", "last_us") + chain().steps["start_us"][0])
    parameters = fitted(streams=streams).parameters
    assert parameters.downlink_s == pytest.approx(0.2)
    assert parameters.uplink_s == pytest.approx(0.05)
    assert parameters.update_s == pytest.approx(0.05)


@pytest.mark.parametrize("asked", [scenario(2, servers=2), scenario(2, link_mbps=3.0)])
def test_other_servers_and_links_are_refused(asked: Scenario) -> None:
    with pytest.raises(BadInput, match="this model does not change that"):
        fitted().predict([asked])
