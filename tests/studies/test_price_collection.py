"""Prices are appended as they were seen: landed whole, loaded once, known from then on."""

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl
import pytest
import yaml

from profilers import clock
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import NodeType, node_types
from studies.price_collection import collect, known_types
from tests.aws import DAY, Aws, instance_type
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
    collected = collect(warehouse, ["us-east-1", "eu-west-1"], ["p3.*"])
    assert collected.seen.keys() == {"us-east-1", "eu-west-1"}
    assert not collected.failed
    runs = landed_runs(warehouse.landing)
    assert {run.host["region"] for run in runs} == {"us-east-1", "eu-west-1"}
    assert as_of(warehouse, NOON).rows() == [
        ("eu-west-1", None, "on_demand", 3.305),
        ("us-east-1", None, "on_demand", 3.06),
        ("eu-west-1", "eu-west-1a", "spot", 1.2),
        ("us-east-1", "us-east-1a", "spot", 1.021),
        ("us-east-1", "us-east-1b", "spot", 0.93),
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
    prices = warehouse.visible("price")
    assert prices.filter(pl.col("run_id").is_in(first["run_id"].unique().to_list())).equals(first)
    assert prices.filter(market="on_demand")["observed_at"].n_unique() == 2
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


def test_a_region_that_fails_takes_no_other_with_it(warehouse: Warehouse, aws: Aws) -> None:
    collected = collect(warehouse, ["eu-west-1", "us-east-9", "us-east-1"], ["p3.8xlarge"])
    assert collected.seen.keys() == {"us-east-1"}
    assert "offers none of p3.8xlarge" in str(collected.failed["eu-west-1"])
    assert "no region 'us-east-9'" in str(collected.failed["us-east-9"])
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
    content = {
        "node_types": {"g6.xlarge": {"threads": 2}},
        "ec2": {**launch, "security_groups": ["g"]},
    }
    assert collect(warehouse).seen.keys() == {"us-east-1"}
    fleet = tmp_path / "fleet.yaml"
    fleet.write_text(yaml.safe_dump(content))
    monkeypatch.setenv(VARIABLE, str(fleet))
    assert collect(warehouse).seen.keys() == {"eu-west-1"}
    names = known_types(warehouse)
    assert names[0] == "g6.xlarge"


def test_hardware_that_nobody_lists_becomes_node_types_of_the_home(
    warehouse: Warehouse, aws: Aws
) -> None:
    aws.types |= {
        "g9.large": instance_type(8, 32, "Up to 25 Gigabit", 12.5, ("L9", 2, 24)),
        "g9.efa": {**instance_type(4, 16, "10 Gigabit", 10.0)},
        "g4ad.xlarge": instance_type(4, 16, "Up to 10 Gigabit", 2.0, ("V520", 1, 8)),
        "m5.large": instance_type(2, 16, "Up to 10 Gigabit", 0.75),
    }
    aws.types["g9.efa"]["NetworkInfo"]["EfaSupported"] = True
    aws.types["g4ad.xlarge"]["GpuInfo"]["Gpus"][0]["Manufacturer"] = "AMD"
    aws.on_demand |= {("us-east-1", name): 1.0 for name in aws.types}
    before = node_types()
    collect(warehouse, ["us-east-1"], ["g*", "m5.large"])
    after = node_types()
    assert after.keys() - before.keys() == {"g9.large", "g9.efa"}
    assert after["g9.large"] == NodeType(
        bandwidth_mbps=12500, threads=4, vcpus=8, memory_gib=32, gpu="L9", gpus=2
    )
    assert (after["g9.efa"].efa, after["m5.large"]) == (True, before["m5.large"])
    file = warehouse.home / "node-types.observed.yaml"
    assert "  # us-east-1, 2026-11-25\n" in file.read_text()
    # One's own word counts; what was seen before stays.
    (warehouse.home / "node-types.yaml").write_text("g9.efa: {bandwidth_mbps: 1}")
    aws.types["g9.large"] = instance_type(8, 64, "Up to 25 Gigabit", 12.5, ("L9", 2, 24))
    collect(warehouse, ["us-east-1"], ["g9.large"])
    assert node_types()["g9.efa"] == NodeType(bandwidth_mbps=1)
    assert node_types()["g9.large"].memory_gib == 64


def test_questions_have_limits(warehouse: Warehouse) -> None:
    with pytest.raises(BadInput, match="at most 200 --type, found 201"):
        collect(warehouse, ["us-east-1"], [f"a{number}.b" for number in range(201)])
    for days in (0.0, 91.0, float("nan")):
        with pytest.raises(BadInput, match="--days: expected above 0 and at most 90"):
            collect(warehouse, ["us-east-1"], days=days)
