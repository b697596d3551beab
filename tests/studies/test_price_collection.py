"""Prices are appended as they were seen: landed whole, loaded once, known from then on."""

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
import yaml

from profilers import clock
from profilers.clusters.fleet import VARIABLE
from studies.price_collection import collect, known_types
from tests.aws import DAY, Aws
from warehouse.landing import landed_runs
from warehouse.records import BadInput, ProbeFailed
from warehouse.warehouse import Warehouse

NOON = DAY + timedelta(hours=7)


@pytest.fixture
def warehouse(home: Path, aws: Aws, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    """Return an empty history, at noon of the first day."""
    at(NOON, monkeypatch)
    return Warehouse(home)


def at(when: datetime, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the clock."""
    monkeypatch.setattr(clock, "now", lambda: when)


def as_of(warehouse: Warehouse, when: datetime, node_type: str = "p3.2xlarge") -> pl.DataFrame:
    """Return the observed prices of a type as of a date."""
    known = warehouse.query("prices_as_of", as_of=when.isoformat(), node_type=node_type)
    return known.filter("observed").select("region", "zone", "market", "usd_per_hour")


def test_each_region_lands_as_a_run_of_its_own(warehouse: Warehouse) -> None:
    found = collect(warehouse, ["us-east-1", "eu-west-1"], ["p3.*"])
    assert found.seen.keys() == {"us-east-1", "eu-west-1"}
    assert not found.failed
    runs = landed_runs(warehouse.landing)
    assert {run.host["region"] for run in runs} == {"us-east-1", "eu-west-1"}
    assert as_of(warehouse, NOON).rows() == [
        ("eu-west-1", None, "on_demand", 3.305),
        ("us-east-1", None, "on_demand", 3.06),
        ("eu-west-1", "eu-west-1a", "spot", 1.2),
        ("us-east-1", "us-east-1a", "spot", 1.021),
        ("us-east-1", "us-east-1b", "spot", 0.93),
    ]
    described = warehouse.query("instance_types", node_type="p3.8xlarge").to_dicts()
    assert [(one["region"], one["device_memory_gb"]) for one in described] == [
        ("us-east-1", 16 * 2**30 / 1e9)
    ]


def test_loading_again_changes_nothing_and_asking_again_appends(
    warehouse: Warehouse, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(warehouse, ["us-east-1"])
    first = warehouse.visible("price")
    assert warehouse.load().loaded == ()
    assert warehouse.visible("price").equals(first)
    at(NOON + timedelta(days=1), monkeypatch)
    collect(warehouse, ["us-east-1"])
    both = warehouse.visible("price")
    assert both.filter(pl.col("run_id").is_in(first["run_id"].unique().to_list())).equals(first)
    assert both.filter(market="on_demand")["observed_at"].n_unique() == 2
    # What AWS tells of one moment again is one price, known since it was seen first.
    history = warehouse.query("price_history", node_type="p3.2xlarge", market="spot")
    seen = history.filter(backend="imported", zone="us-east-1a")
    assert seen["usd_per_hour"].to_list() == [0.95, 0.918, 1.021]
    assert seen["change_usd_per_hour"].to_list()[1:] == pytest.approx([-0.032, 0.103])
    assert seen["known_from"].to_list() == [NOON] * 3


def test_a_price_counts_from_when_it_was_seen(
    warehouse: Warehouse, aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect(warehouse, ["us-east-1"])
    before = as_of(warehouse, NOON + timedelta(hours=1))
    assert as_of(warehouse, NOON - timedelta(hours=1)).is_empty()
    # It fell an hour before that, which is seen only on the next day.
    aws.spot.append(("p3.2xlarge", "us-east-1a", 0.5, NOON - timedelta(minutes=1)))
    aws.on_demand["us-east-1", "p3.2xlarge"] = 2.5
    tomorrow = NOON + timedelta(days=1)
    at(tomorrow, monkeypatch)
    collect(warehouse, ["us-east-1"])
    assert as_of(warehouse, NOON + timedelta(hours=1)).equals(before)
    assert as_of(warehouse, tomorrow).rows() == [
        ("us-east-1", None, "on_demand", 2.5),
        ("us-east-1", "us-east-1a", "spot", 0.5),
        ("us-east-1", "us-east-1b", "spot", 0.93),
    ]


def test_papers_prices_stay_as_printed(warehouse: Warehouse) -> None:
    collect(warehouse, ["us-east-1"])
    known = warehouse.query("prices_as_of", node_type="p3.8xlarge", market="on_demand")
    printed = known.filter(~pl.col("observed"))
    assert printed.select("usd_per_hour", "source").rows() == [(12.24, "ceer, section III-D")]


def test_a_region_that_fails_takes_no_other_with_it(warehouse: Warehouse, aws: Aws) -> None:
    found = collect(warehouse, ["eu-west-1", "us-east-9", "us-east-1"], ["p3.8xlarge"])
    assert found.seen.keys() == {"us-east-1"}
    assert "offers none of p3.8xlarge" in str(found.failed["eu-west-1"])
    assert "no region 'us-east-9'" in str(found.failed["us-east-9"])
    assert len(landed_runs(warehouse.landing)) == 1


def test_a_region_lands_whole_or_not_at_all(warehouse: Warehouse, aws: Aws) -> None:
    aws.refusals["DescribeSpotPriceHistory"] = (400, "InternalError", "no")
    with pytest.raises(ProbeFailed, match="InternalError"):
        collect(warehouse, ["us-east-1", "eu-west-1"])
    assert landed_runs(warehouse.landing) == []
    assert warehouse.visible("price").is_empty()


def test_what_is_asked_for_when_nothing_is_named(
    warehouse: Warehouse, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="prices of which region"):
        collect(warehouse)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    launch = {"region": "eu-west-1", "image": "a", "key_name": "k", "subnet": "s"}
    told = {
        "node_types": {"g6.xlarge": {"threads": 2}},
        "ec2": {**launch, "security_groups": ["g"]},
    }
    assert collect(warehouse).seen.keys() == {"us-east-1"}
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(told))
    monkeypatch.setenv(VARIABLE, str(fleet))
    assert collect(warehouse).seen.keys() == {"eu-west-1"}
    names = known_types(warehouse)
    assert names[0] == "g6.xlarge"
    assert {"p3.2xlarge", "p2.8xlarge"} <= set(names)
    assert not [name for name in names if name.startswith("emu.")]


def test_questions_have_limits(warehouse: Warehouse) -> None:
    with pytest.raises(BadInput, match="at most 200 --type, found 201"):
        collect(warehouse, ["us-east-1"], [f"a{number}.b" for number in range(201)])
    for days in (0.0, 91.0, float("nan")):
        with pytest.raises(BadInput, match="--days: expected above 0 and at most 90"):
            collect(warehouse, ["us-east-1"], days=days)
