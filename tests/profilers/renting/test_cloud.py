"""Renting over HTTP: through aws.py, botocore and a wire on which calls get lost."""

import itertools
import json
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest
from botocore.parsers import ResponseParserError

from profilers.clusters.fleet import Launch
from profilers.prices.aws import client
from profilers.renting import aws
from profilers.renting.aws import Ec2
from profilers.renting.book import Book
from profilers.renting.cap import bill
from profilers.renting.renter import LaunchPlace, Renter
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.answers import check
from tests.profilers.renting.cloud import FAULTS, REGION, ZONES, Cloud
from warehouse.records import Market, ProbeFailed, StepcastError

cloud, served = standing_in.cloud, standing_in.served
CAP_USD = 4.0
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
        provider=Ec2(REGION, how(cloud), pause=clock.pause),
        book=Book(folder),
        owner="stepcast-000000000000-000000000000-0",
        home_token="0" * 12,
        cap_usd=CAP_USD,
        account="lab",
        pause=clock.pause,
        monotonic=lambda: clock.at_s,
    )


def check_known(cloud: Cloud, folder: Path) -> None:
    """Check that the book knows all that lives, and that it fits into the cap."""
    entries = Book(folder).read()
    living = cloud.alive()
    assert {instance["ClientToken"] for instance in living.values()} <= entries.intents.keys()
    assert not {instance["ClientToken"] for instance in living.values()} & entries.refused.keys()
    assert not living.keys() & entries.ended.keys()
    assert bill(entries.of("lab")).worst_usd <= CAP_USD + 1e-9


@pytest.mark.parametrize("seed", range(25))
def test_no_sequence_of_faults_leaves_what_nobody_knows(
    seed: int, cloud: Cloud, tmp_path: Path
) -> None:
    chance, folder = random.Random(seed), tmp_path / "rented"
    for _ in range(chance.randint(2, 4)):
        cloud.faults = chance.choices(("fine", *FAULTS), (6, 1, 2, 1, 1, 1), k=12)
        markets = itertools.product((*ZONES, None), ("spot", "on_demand"))
        cloud.full = {market for market in markets if chance.random() < 0.3}
        tenant = renter(cloud, folder)
        with suppress(StepcastError):
            ids = tenant.launch(PLACES, chance.randint(1, 3), most_hours=0.3)
            check_known(cloud, folder)
            tenant.end(ids[chance.randrange(2) :])
        check_known(cloud, folder)
        if chance.random() < 0.5:
            tenant.end_all()
            check_known(cloud, folder)
    cloud.faults = []
    renter(cloud, folder).settle(Book(folder).read().intents.values())
    assert cloud.alive() == {}
    check_known(cloud, folder)


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


CHILDREN = """
import json, os, sys
from pathlib import Path
from profilers.clusters.fleet import Launch
from profilers.renting.aws import Ec2
from profilers.renting.book import Book
from profilers.renting.renter import LaunchPlace, Renter
provider = Ec2("us-east-1", Launch.model_validate(json.loads(sys.argv[1])))
provider.find("none")
provider._launching
place = LaunchPlace("us-east-1", "us-east-1a", "p3.2xlarge", "spot", 1.0)
def live(folder):
    renter = Renter(
        provider, Book(Path(folder)), "stepcast-000000000000-000000000000-0", "0" * 12,
        cap_usd=4.0, account="lab",
    )
    ids = renter.launch([place], 2, 0.3)
    renter.end(ids[:1])
    renter.end_all()
for folder in iter(sys.stdin.readline, ""):
    pid = os.fork()
    if not pid:
        os.read(0, 3)
        try:
            live(folder.strip())
            os._exit(0)
        finally:
            os._exit(1)
    print(pid, flush=True)
    print(os.waitpid(pid, 0)[1], flush=True)
"""
"""Starts a process for each folder that it is told; what they import is imported once."""


class Children:
    """Processes that rent and end, and are killed at one of their calls."""

    def __init__(self, process: "subprocess.Popen[str]", cloud: Cloud) -> None:
        self._process, self._cloud = process, cloud

    def killed(self, folder: Path, call: int, when: int) -> int:
        """Return the wait status of one that is killed at a call, before or after it is done."""
        assert self._process.stdin is not None and self._process.stdout is not None
        print(folder, file=self._process.stdin, flush=True)
        pid = int(self._process.stdout.readline())
        self._cloud.asked, self._cloud.at_call = [], (call, when, pid)
        print("go", file=self._process.stdin, flush=True)
        status = int(self._process.stdout.readline())
        self._cloud.at_call = None
        return status


@contextmanager
def children(cloud: Cloud) -> Iterator[Children]:
    given = json.dumps(how(cloud).model_dump(mode="json"))
    with subprocess.Popen(
        [sys.executable, "-c", CHILDREN, given],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        yield Children(process, cloud)


def test_killed_at_each_call_of_a_launch_and_a_teardown_nothing_is_forgotten(
    cloud: Cloud, tmp_path: Path
) -> None:
    """A real process is sent SIGKILL while it waits for each answer: not done yet, and done."""
    operations = []
    with children(cloud) as started:
        for number in itertools.count():
            folder = tmp_path / f"rented-{number}"
            status = started.killed(folder, *divmod(number, 2))
            if status == 0:
                break
            assert status == signal.SIGKILL
            operations.append(cloud.asked[-1])
            check_known(cloud, folder)
            renter(cloud, folder).settle(Book(folder).read().intents.values())
            assert cloud.alive() == {}
    assert operations[:2] == ["RunInstances"] * 2
    assert operations.count("TerminateInstances") == 4


def test_answers_that_botocore_would_not_read_are_refused() -> None:
    with pytest.raises(ResponseParserError, match="mismatched tag"):
        check("RunInstances", b"<RunInstancesResponse><x></RunInstancesResponse>")


def test_without_credentials_that_work_nothing_is_rented(cloud: Cloud, tmp_path: Path) -> None:
    cloud.faults = ["expired"]
    with pytest.raises(ProbeFailed, match="expired"):
        renter(cloud, tmp_path / "rented").launch(PLACES, 1, most_hours=0.3)
    assert cloud.alive() == {}
