"""Renting over HTTP: through aws.py, botocore and a wire on which calls get lost."""

from functools import cache
from pathlib import Path

import pytest

from profilers.clusters.fleet import Launch
from profilers.prices.aws import client
from profilers.renting import aws
from profilers.renting.aws import Ec2
from profilers.renting.book import Book
from profilers.renting.renter import LaunchPlace, Renter
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.cloud import REGION, ZONES, Cloud
from warehouse.records import Market

cloud, served = standing_in.cloud, standing_in.served
MARKETS: tuple[tuple[Market, float], ...] = (("spot", 1.0), ("on_demand", 3.06))
PLACES = [
    LaunchPlace(REGION, zone, "p3.2xlarge", market, usd, 0.01)
    for market, usd in MARKETS
    for zone in ZONES
]


class Clock:
    """Time that passes while a renter pauses."""

    def __init__(self) -> None:
        self.at_s = 0.0

    def pause(self, seconds: float) -> None:
        self.at_s += seconds


_client = cache(client)


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore asks again without pauses, and its models are read once."""
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)
    monkeypatch.setattr(aws, "client", _client)


def how(cloud: Cloud) -> Launch:
    return Launch(
        region=REGION,
        image="ami-12345678",
        key_name="lab",
        subnets=dict(cloud.subnets()),
        security_groups=(cloud.group,),
    )


def renter(cloud: Cloud, folder: Path) -> Renter:
    """Return what a new process has."""
    clock = Clock()
    return Renter(
        provider=Ec2(REGION, how(cloud)),
        book=Book(folder),
        owner="stepcast-000000000000-000000000000-0",
        home_token="0" * 12,
        cap_usd=4.0,
        account="lab",
        pause=clock.pause,
        monotonic=lambda: clock.at_s,
    )


def test_a_launch_whose_answer_is_lost_launches_once(cloud: Cloud, tmp_path: Path) -> None:
    cloud.faults = ["after", "after"]
    ids = renter(cloud, tmp_path / "rented").launch(PLACES, 2, most_hours=0.3)
    assert cloud.asked == ["RunInstances"] * 3
    assert {*ids} == cloud.alive().keys()


def test_the_next_zone_and_the_next_market_are_asked(cloud: Cloud, tmp_path: Path) -> None:
    cloud.full = {(None, "spot"), (ZONES[0], "on_demand")}
    tenant = renter(cloud, tmp_path / "rented")
    (id_,) = tenant.launch(PLACES, 1, most_hours=0.3)
    assert cloud.alive()[id_]["Placement"]["AvailabilityZone"] == ZONES[1]
    codes = [entry.code for entry in tenant.book.read().refused.values()]
    assert codes == ["InsufficientInstanceCapacity"] * 3
