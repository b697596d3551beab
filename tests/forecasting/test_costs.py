"""What forecasts cost, by hand."""

from datetime import UTC, datetime

import polars as pl
import pytest

from forecasting.costs import prices_of, usd_per_hour, usd_per_million_samples
from models.choice.offers import preferred_prices
from tests.made_run import all_reduce, served, worker_nodes
from warehouse.records import Price, Scenario

OBSERVED = {
    "provider": "aws",
    "zone": None,
    "market": "on_demand",
    "observed_at": datetime(2026, 11, 26, tzinfo=UTC),
    "source": "seen",
    "observed": True,
}


def prices(*rows: tuple[str, str, float]) -> list[Price]:
    """Return prices of node types: name, region, US dollars per hour."""
    names = ("node_type", "region", "usd_per_hour")
    listed = [OBSERVED | dict(zip(names, row, strict=True)) for row in rows]
    return preferred_prices(pl.DataFrame(listed, schema_overrides={"zone": pl.String}))


def servers() -> Scenario:
    """Return a scenario of two workers and a server of the same type as another's."""
    return served(worker_nodes("fast", 2), server="small")


def rings() -> Scenario:
    """Return an all-reduce of one node of 8 and two of 4 samples a device, two devices each."""
    alone = all_reduce(worker_nodes("fast"), worker_nodes("small", 2, batch_size=4))
    return alone.model_copy(
        update={"strategy": alone.strategy.model_copy(update={"devices_per_node": 2})}
    )


def test_all_nodes_are_paid_for_in_the_cheapest_region_that_has_all() -> None:
    known = prices(
        ("fast", "east", 3.0),
        ("small", "east", 0.5),
        ("fast", "west", 1.0),
        ("small", "north", 0.1),
    )
    found = prices_of(servers(), known)
    assert usd_per_hour(servers(), found) == pytest.approx(2 * 3.0 + 0.5)
    assert {price.region for price in found or ()} == {"east"}
    assert prices_of(servers(), prices(("fast", "east", 3.0))) is None


def test_a_million_samples_take_their_steps() -> None:
    # Ten steps of eight samples a second: 12,500 s at 3.6 $ an hour.
    assert usd_per_million_samples(servers(), "throughput_steps_per_s", 10.0, 3.6) == pytest.approx(
        12.5
    )
    # A step of (8 + 2 x 4) x 2 samples in half a second: 15,625 s.
    assert usd_per_million_samples(rings(), "step_time_s", 0.5, 3.6) == pytest.approx(15.625)
