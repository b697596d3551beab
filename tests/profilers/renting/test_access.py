"""Keys and security groups of rentals over HTTP: whatever is lost or killed, none is forgotten."""

import itertools
import random
import signal
import stat
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from profilers.clusters import owner
from profilers.clusters.fleet import Launch
from profilers.renting import access
from profilers.renting.access import close_accesses, open_access, own_address
from profilers.renting.aws import Ec2
from profilers.renting.book import AccessIntent, Book
from profilers.renting.reaper import reap, settle_dead
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.children import children
from tests.profilers.renting.cloud import FAULTS, REGION, Cloud
from tests.profilers.renting.intents import intent
from warehouse.records import BadInput, ProbeFailed, StepcastError

cloud, served = standing_in.cloud, standing_in.served
HOME, CALLER = "0" * 12, "203.0.113.7"
NAME = f"stepcast-{HOME}-{'1' * 12}-0"


@pytest.fixture(autouse=True)
def _none_before(cloud: Cloud) -> None:
    for name in there(cloud):
        Ec2(REGION).remove_access(name)
    cloud.asked = []


def how(cloud: Cloud, **more: Any) -> Launch:
    subnets = dict(cloud.subnets())
    return Launch(region=REGION, image="ami-12345678", subnets=subnets, ssh_from=CALLER, **more)


def opened(cloud: Cloud, folder: Path, name: str = NAME, **more: Any) -> tuple[Launch, list[str]]:
    folder.mkdir(exist_ok=True, mode=0o700)
    return open_access(Ec2(REGION), Book(folder), how(cloud, **more), name, HOME, folder)


def closed(folder: Path, names: list[str], within_s: float = 60.0) -> tuple[str, ...]:
    """Remove keys and groups, in time that passes by itself."""
    clock = itertools.count(step=5)
    said: list[str] = []
    return close_accesses(
        Ec2(REGION),
        Book(folder),
        names,
        said.append,
        within_s,
        pause=lambda _: None,
        monotonic=lambda: float(next(clock)),
    )


def there(cloud: Cloud) -> set[str]:
    """Return the names of our keys and groups that are there."""
    keys = cloud.direct.describe_key_pairs()["KeyPairs"]
    groups = cloud.direct.describe_security_groups()["SecurityGroups"]
    names = {key["KeyName"] for key in keys} | {group["GroupName"] for group in groups}
    return {name for name in names if name.startswith("stepcast-")}


def test_nodes_reach_each_other_and_the_caller_their_ssh(cloud: Cloud, tmp_path: Path) -> None:
    made, (_, file, *rest) = opened(cloud, tmp_path / "rented")
    assert (made.key_name, rest) == (NAME, ["-o", "IdentitiesOnly=yes"])
    (id_,) = made.security_groups
    (group,) = cloud.direct.describe_security_groups(GroupIds=[id_])["SecurityGroups"]
    rules = {rule["IpProtocol"]: rule for rule in group["IpPermissions"]}
    assert rules.keys() == {"-1", "tcp"}
    assert [pair["GroupId"] for pair in rules["-1"]["UserIdGroupPairs"]] == [id_]
    assert rules["-1"]["IpRanges"] == []
    assert (rules["tcp"]["FromPort"], rules["tcp"]["ToPort"]) == (22, 22)
    assert [of["CidrIp"] for of in rules["tcp"]["IpRanges"]] == [f"{CALLER}/32"]
    tags = {tag["Key"]: tag["Value"] for tag in group["Tags"]}
    assert (tags["stepcast:owner"], tags["stepcast:home"]) == (NAME, HOME)
    assert stat.S_IMODE(Path(file).stat().st_mode) == 0o600
    public_key = Path(file).with_suffix(".pub").read_text()
    assert cloud.public_key(NAME).split()[:2] == public_key.split()[:2]
    assert closed(tmp_path / "rented", [NAME]) == ()
    assert there(cloud) == set() and not Book(tmp_path / "rented").read().accesses


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({"key_name": "lab", "security_groups": ("sg-1",)}, []),
        ({"launch_template": "lt-1"}, []),
        ({"security_groups": ("sg-1",)}, ["DescribeKeyPairs", "ImportKeyPair"]),
    ],
)
def test_what_the_fleet_file_names_is_not_made(
    given: dict[str, Any], made: list[str], cloud: Cloud, tmp_path: Path
) -> None:
    launch, words = opened(cloud, tmp_path / "rented", **given)
    assert set(cloud.asked) <= {*made}
    assert {"key_name": launch.key_name, **given}.items() <= dict(launch).items()
    assert (words == []) == (made == [])


def test_nothing_is_made_that_is_not_written_down(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Book, *_: object) -> None:
        raise BadInput("no space")

    monkeypatch.setattr(Book, "write", full)
    with pytest.raises(BadInput, match="no space"):
        opened(cloud, tmp_path / "rented")
    assert cloud.asked == []


def test_a_group_goes_after_its_nodes(cloud: Cloud, tmp_path: Path) -> None:
    made, _ = opened(cloud, tmp_path / "rented")
    ec2 = Ec2(REGION, made)
    ids = ec2.launch(intent(region=REGION, zone="us-east-1a"), HOME)
    assert closed(tmp_path / "rented", [NAME]) == (NAME,)
    assert there(cloud) == {NAME} and Book(tmp_path / "rented").read().accesses.keys() == {NAME}
    ec2.terminate(ids)
    assert closed(tmp_path / "rented", [NAME]) == ()
    assert there(cloud) == set()


@pytest.mark.parametrize("seed", range(15))
def test_no_sequence_of_faults_leaves_what_nobody_knows(
    seed: int, cloud: Cloud, tmp_path: Path
) -> None:
    chance, folder = random.Random(seed), tmp_path / "rented"
    names = [f"{NAME}{number}" for number in range(3)]
    for name in names:
        cloud.faults = chance.choices(("fine", *FAULTS), (6, 1, 2, 1, 1, 1), k=8)
        with suppress(StepcastError):
            opened(cloud, folder, name)
        assert there(cloud) <= Book(folder).read().accesses.keys()
        if chance.random() < 0.5:
            closed(folder, [name], within_s=chance.choice((0.0, 30.0)))
        assert there(cloud) <= Book(folder).read().accesses.keys()
    cloud.faults = []
    closed(folder, names)
    assert there(cloud) == set()


def test_what_was_lost_and_may_turn_up_stays_in_the_book(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "rented"
    cloud.faults = ["refused"]
    with pytest.raises(ProbeFailed, match="ImportKeyPair"):
        opened(cloud, folder)
    assert closed(folder, [NAME]) == (NAME,)
    later = datetime.now(UTC) + timedelta(minutes=11)
    monkeypatch.setattr("profilers.clock.now", lambda: later)
    assert closed(folder, [NAME]) == ()
    assert not Book(folder).read().accesses


CHILDREN = """
import sys
from profilers.clusters import owner
from profilers.clusters.fleet import Launch
from profilers.renting.access import close_accesses, open_access
from profilers.renting.aws import Ec2
from profilers.renting.book import AccessIntent, Book
how = Launch.model_validate_json(sys.argv[1])
provider, book = Ec2("us-east-1"), Book()
provider.tagged_access("none")
named = lambda _: owner.new_prefix()
def live(name):
    open_access(provider, book, how, name, owner.token(), owner.folder())
    close_accesses(provider, book, [name], print, 0.0)
"""


@pytest.mark.parametrize(("by", "when"), [("book", 0), ("book", 1), ("tags", 1)])
def test_what_a_killed_process_made_is_removed(
    by: str, when: int, cloud: Cloud, home: Path
) -> None:
    """It is killed at each of its calls, before (0) or after (1) the call is done."""
    operations: list[str] = []
    with children(cloud, CHILDREN, how(cloud).model_dump_json()) as killed:
        for call in itertools.count():
            status, name = killed("one", call, when)
            if status == 0:
                break
            assert status == signal.SIGKILL
            operations.append(cloud.asked[-1])
            assert there(cloud) <= Book().read().accesses.keys() == {name}
            if by == "book":
                settle_dead(Book(), Ec2, print, 0.0)
            else:
                (home / "rented" / "book.jsonl").unlink()
                assert reap(Book(), [REGION], Ec2, print, 0.0).left == ()
            assert there(cloud) == set()
            (home / "rented" / "book.jsonl").unlink(missing_ok=True)
    assert operations[:2] == ["ImportKeyPair", "DescribeSubnets"]
    assert {"CreateSecurityGroup", "DeleteKeyPair", "DeleteSecurityGroup"} <= {*operations}
    assert there(cloud) == set() and not Book().read().accesses


def test_what_a_living_process_has_made_stays(cloud: Cloud, home: Path) -> None:
    name = owner.new_prefix()
    open_access(Ec2(REGION), Book(), how(cloud), name, owner.token(), owner.folder())
    report = reap(Book(), [REGION], Ec2, print, 0.0)
    assert (report.ended, report.left) == ((), ())
    assert there(cloud) == {name}


def test_a_whole_one_is_written_down_as_such(cloud: Cloud, tmp_path: Path) -> None:
    opened(cloud, tmp_path / "rented")
    entries = Book(tmp_path / "rented").read().all
    assert [entry.is_made for entry in entries if isinstance(entry, AccessIntent)] == [False, True]


@pytest.mark.parametrize("said", [b"203.0.113.7\n", b"<html>log in</html>", b"::1", b"\xff"])
def test_the_address_of_the_caller_is_asked_for(
    said: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(access, "CHECK_IP", f"data:;base64,{b64encode(said).decode()}")
    if said.startswith(b"203"):
        assert own_address() == CALLER
    else:
        with pytest.raises(ProbeFailed, match=r"does not say from which .*, as `ssh_from`"):
            own_address()


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="ssh_from"):
        Launch(region=REGION, image="a", subnet="s", ssh_from="0.0.0.0/0")


def test_without_public_addresses_the_caller_says_its_own() -> None:
    private: dict[str, Any] = {"region": REGION, "image": "a", "subnet": "s", "public": False}
    with pytest.raises(ValueError, match="say in `ssh_from` which address"):
        Launch(**private)
    assert Launch(**private, ssh_from=CALLER).ssh_from == CALLER
    assert Launch(**private, security_groups=("sg-1",)).ssh_from is None
