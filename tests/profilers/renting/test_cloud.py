"""Renting over HTTP: through aws.py, botocore and a wire on which calls get lost."""

import itertools
import signal
from pathlib import Path

from profilers.clusters.fleet import Launch
from profilers.renting.aws import Ec2
from profilers.renting.book import Book
from profilers.renting.cap import bill
from profilers.renting.renter import LaunchPlace, Renter
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.children import children
from tests.profilers.renting.cloud import REGION, ZONES, Cloud
from warehouse.records import Market

cloud, served = standing_in.cloud, standing_in.served
CAP_USD = 4.0
MARKETS: tuple[tuple[Market, float], ...] = (("spot", 1.0), ("on_demand", 3.06))
PLACES = [
    LaunchPlace(REGION, zone, "p3.2xlarge", market, usd, 0.01)
    for market, usd in MARKETS
    for zone in ZONES
]


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
    paused_s = list[float]()
    return Renter(
        provider=Ec2(REGION, how(cloud)),
        book=Book(folder),
        owner="stepcast-000000000000-000000000000-0",
        home_token="0" * 12,
        cap_usd=CAP_USD,
        account="lab",
        pause=paused_s.append,
        monotonic=lambda: sum(paused_s),
    )


def check_known(cloud: Cloud, folder: Path) -> None:
    """Check that the book knows all that lives, and that it fits into the cap."""
    entries = Book(folder).read()
    living = cloud.alive()
    assert {instance["ClientToken"] for instance in living.values()} <= entries.intents.keys()
    assert not {instance["ClientToken"] for instance in living.values()} & entries.refused.keys()
    assert not living.keys() & entries.ended.keys()
    assert bill(entries.of("lab")).worst_usd <= CAP_USD + 1e-9


def test_a_launch_whose_answer_is_lost_launches_once(cloud: Cloud, tmp_path: Path) -> None:
    cloud.faults = ["after", "after"]
    ids = renter(cloud, tmp_path / "rented").launch(PLACES, 2, most_hours=0.3)
    assert cloud.asked == ["RunInstances"] * 3
    assert {*ids} == cloud.alive().keys()


CHILDREN = """
import sys
from pathlib import Path
from profilers.clusters.fleet import Launch
from profilers.renting.aws import Ec2
from profilers.renting.book import Book
from profilers.renting.renter import LaunchPlace, Renter
provider = Ec2("us-east-1", Launch.model_validate_json(sys.argv[1]))
provider.find("none")
provider._launching
place = LaunchPlace("us-east-1", "us-east-1a", "p3.2xlarge", "spot", 1.0)
named = str
def live(folder):
    renter = Renter(
        provider, Book(Path(folder)), "stepcast-000000000000-000000000000-0", "0" * 12,
        cap_usd=4.0, account="lab",
    )
    ids = renter.launch([place], 2, 0.3)
    renter.end(ids[:1])
    renter.settle(renter.book.read().intents.values())
"""


def test_killed_at_each_call_of_a_launch_and_a_teardown_nothing_is_forgotten(
    cloud: Cloud, tmp_path: Path
) -> None:
    """A real process is sent SIGKILL while it waits for each answer: not done yet, and done."""
    operations = []
    with children(cloud, CHILDREN, how(cloud).model_dump_json()) as killed:
        for number in itertools.count():
            folder = tmp_path / f"rented-{number}"
            status, _ = killed(f"{folder}", *divmod(number, 2))
            if status == 0:
                break
            assert status == signal.SIGKILL
            operations.append(cloud.asked[-1])
            check_known(cloud, folder)
            renter(cloud, folder).settle(Book(folder).read().intents.values())
            assert cloud.alive() == {}
    assert operations[:2] == ["RunInstances"] * 2
    assert operations.count("TerminateInstances") == 4
