"""What nodes cost on each market."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from shutil import copytree

import pytest

from forecasting.decisions.offers import RegionOffers, known_prices, region_offers
from forecasting.decisions.question import JobQuestion
from models.choice.overheads import PREEMPTIONS_PER_NODE_HOUR, expected_duration, young_s
from studies.curve import Curve
from tests.made_run import made_run, raw_table
from warehouse.landing import land
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse

START = datetime(2026, 1, 1, tzinfo=UTC)
WORKER, SERVER = "emu.native.s25", "emu.server"
QUESTION = JobQuestion(dnn="small_cnn", samples=1, batch_size=8, server=SERVER, servers=2)
SPOT = [0.01, 0.09, 0.01, 0.09, 0.02]
"""Of the worker, hour by hour; on demand it costs 0.06 US dollars."""


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """Return a warehouse with spot prices of a worker and a server in one zone."""
    home = tmp_path_factory.mktemp("prices")
    hours: list[tuple[str, float, float]] = [(WORKER, usd, hour) for hour, usd in enumerate(SPOT)]
    hours += [(SERVER, 0.03, hour) for hour in (0, 4)]
    land_prices(home / "landing", hours)
    history = Warehouse(home)
    history.load()
    return history


def land_prices(
    landing: Path,
    hours: list[tuple[str, float, float]],
    probe: str = "price",
    seen: float = 0,
    region: str = "east",
) -> None:
    """Land spot prices of node types at some hours, which a run of a probe saw at an hour."""
    columns = "node_type usd_per_hour observed_at market provider region zone source"
    rest = "spot", "us", region, f"{region}-a", "made up"
    rows = [(name, usd, START + timedelta(hours=hour), *rest) for name, usd, hour in hours]
    prices = raw_table("price", columns, rows)
    began = START + timedelta(hours=seen)
    run = made_run(probe, probe, began, ended_at=began + timedelta(hours=1), backend="ssh")
    land(landing, run, None, {"price": prices})


def on(
    warehouse: Warehouse,
    question: JobQuestion = QUESTION,
    hours: float = 9,
    region: str | None = None,
) -> RegionOffers:
    """Return what is offered on the spot market some hours after the first price."""
    when = START + timedelta(hours=hours)
    known = known_prices(warehouse, when, region)
    return region_offers(question, {WORKER: 4}, "spot", when, known)


def test_all_nodes_are_paid_for_at_the_newest_price(warehouse: Warehouse) -> None:
    fields = {"dnn": "small_cnn", "image_size": 24, "batch_size": 8, "link_mbps": 200}
    nodes = {"worker": WORKER, "server": SERVER, "servers": 2, "workers": [3]}
    curve = Curve.model_validate(fields | nodes)
    scenario = curve.scenario(3, "emulated")
    offers = on(warehouse)
    assert offers.markets == ("spot",)
    assert offers.usd_per_hour(scenario, "spot") == pytest.approx(3 * 0.02 + 2 * 0.03)
    assert offers.usd_per_hour(scenario, "on_demand") is None
    assert offers.preemptions_per_hour(scenario, "on_demand") == 0
    rate = offers.preemptions_per_hour(scenario, "spot")
    assert rate == pytest.approx(5 * PREEMPTIONS_PER_NODE_HOUR)
    # A fifth of all nodes is lost within a month of 730 hours.
    assert (1 - PREEMPTIONS_PER_NODE_HOUR / 100) ** 73_000 == pytest.approx(0.8, rel=1e-3)
    given = on(warehouse, QUESTION.model_copy(update={"preemptions_per_node_hour": 0.25}))
    assert given.preemptions_per_hour(scenario, "spot") == 5 * 0.25
    rented = expected_duration(QUESTION.overheads, rate)
    assert rented.checkpoint_every_s == pytest.approx(young_s(10, rate / 3600))
    assert rented.factor > 1


def test_prices_of_later_do_not_count(warehouse: Warehouse, tmp_path: Path) -> None:
    """What is observed or collected after a date changes no answer as of that date."""
    home = Path(copytree(warehouse.home, tmp_path / "home"))
    land_prices(home / "landing", [(WORKER, 0.05, 1.25)], "prices", seen=20)
    Warehouse(home).load()
    for hours, usd in ((1.5, 0.09), (2.5, 0.01)):
        prices = on(Warehouse(home), hours=hours).prices
        assert {price.node_type: price.usd_per_hour for price in prices}[WORKER] == usd


def test_a_price_without_a_region_goes_with_those_of_any(warehouse: Warehouse) -> None:
    """Srift's table 4 names no region of its spot prices."""
    question = QUESTION.model_copy(update={"server": None})
    capacity = {WORKER: 4, "p3.8xlarge": 1}
    when = START + timedelta(hours=9)
    offered = region_offers(question, capacity, "spot", when, known_prices(warehouse, when, "east"))
    regions = {price.node_type: price.region for price in offered.prices}
    assert regions == {WORKER: "east", "p3.8xlarge": None}


def test_prices_of_one_region_count_where_it_is_named(warehouse: Warehouse, tmp_path: Path) -> None:
    home = Path(copytree(warehouse.home, tmp_path / "home"))
    dearer = [(name, 0.5, 3.0) for name in (WORKER, SERVER)]
    land_prices(home / "landing", dearer, "prices", seen=4, region="west")
    history = Warehouse(home)
    history.load()
    assert {price.region for price in on(history).prices} == {"east"}
    west = on(history, region="west").prices
    assert {(price.region, price.usd_per_hour) for price in west} == {("west", 0.5)}
    with pytest.raises(BadInput, match=r"--region north: no price .* known: east, west"):
        on(history, region="north")
