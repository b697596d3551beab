"""Clusters of rented instances: a made-up provider, and sshd's of this host as instances."""

import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from profilers.clusters import ec2, open_cluster, owner
from profilers.clusters.ec2 import Ec2Cluster
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_group
from profilers.renting import aws
from profilers.renting.book import Book, LaunchIntent
from profilers.renting.cap import Allowance, Rate, use_allowance
from tests.profilers.clusters.machines import NODE_TYPE, machines
from tests.profilers.clusters.made_up import World
from warehouse.records import BadInput, ProbeFailed

LAUNCH = {
    "region": "us-east-1",
    "image": "ami-1",
    "key_name": "lab",
    "subnets": {"us-east-1a": "subnet-1", "us-east-1b": "subnet-2"},
    "security_groups": ["sg-1"],
}
WORKER = (node_group("worker", "emu.server", 1).model_copy(update={"node_type": NODE_TYPE}),)
RATE = Rate(usd_per_hour=0.06, most_usd_per_hour=0.10, source="test")


@pytest.fixture
def world(home: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    provider = World()
    monkeypatch.setattr(ec2, "Ec2", lambda *_: provider)
    return provider


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def allowance(said: list[str]) -> Iterator[Allowance]:
    rates = {(NODE_TYPE, "on_demand"): RATE, (NODE_TYPE, "spot"): RATE}
    with use_allowance(Allowance(1.0, rates, say=said.append)) as granted:  # type: ignore[arg-type]
        yield granted


def write(folder: Path, monkeypatch: pytest.MonkeyPatch, **changed: Any) -> None:
    file = folder / "fleet.yaml"
    content = yaml.safe_load(file.read_text()) if file.exists() else {}
    content = {"node_types": {NODE_TYPE: {"threads": 1}}, **content, "ec2": LAUNCH, **changed}
    file.write_text(yaml.safe_dump(content))
    monkeypatch.setenv(VARIABLE, str(file))


@pytest.fixture
def answering(
    world: World, allowance: Allowance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Return the folder of a machine at the address of instances, which a fleet file launches."""
    with machines(tmp_path, 1) as file:
        content = yaml.safe_load(file.read_text())
        port, key = content["machines"][0]["port"], str(tmp_path / "key")
        write(tmp_path, monkeypatch, ssh=["-p", str(port), "-i", key, "-o", "LogLevel=ERROR"])
        world.folder = tmp_path
        yield tmp_path / "m0"


@pytest.mark.sshd
def test_an_instance_with_another_host_key_is_not_talked_to(
    world: World, answering: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ec2, "_SSH_S", 0.0)
    public_key = (world.folder or Path()) / "key.pub"
    other = public_key.read_text().rsplit(" ", 1)[0]
    launch = world.launch

    def launched(intent: LaunchIntent, owner_token: str) -> Sequence[str]:
        world.console_says = f"{aws.MARKER} {intent.token} {other}\n"
        return launch(intent, owner_token)

    monkeypatch.setattr(world, "launch", launched)
    with (
        pytest.raises(ProbeFailed, match="Host key verification failed"),
        open_cluster("ec2", WORKER, None),
    ):
        pass
    assert world.alive == []


@pytest.mark.sshd
@pytest.mark.parametrize(
    ("scheduled", "why"),
    [("", "has no shutdown set"), (f"USEC={10**17}\nMODE=poweroff\n", "shuts itself down in")],
)
def test_an_instance_that_would_not_end_in_time_is_ended(
    scheduled: str, why: str, world: World, answering: Path
) -> None:
    (answering / "scheduled").write_text(scheduled)
    with pytest.raises(ProbeFailed, match=why), open_cluster("ec2", WORKER, None):
        pass
    assert world.alive == []


@pytest.mark.sshd
def test_a_notice_ends_what_runs_and_says_so(
    world: World, answering: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_cluster("ec2", (), None) as cluster:
        (node,) = cluster.add(*WORKER, spot=True)
        assert world.asked[0].market == "spot"
        process = cluster.popen(node, ["sleep", "60"])
        assert isinstance(cluster, Ec2Cluster)
        cluster._noticed("i-0", "terminate at noon")  # noqa: SLF001
        assert process.wait(timeout=10) != -signal.SIGKILL
        assert cluster.lost() == "EC2 takes i-0 back: terminate at noon"
        cluster.remove(node)
        assert world.alive == []


@pytest.mark.sshd
def test_an_instance_that_ended_is_told_of(world: World, answering: Path) -> None:
    with open_cluster("ec2", WORKER, None) as cluster:
        world.states["i-0"] = "ended"
        assert "i-0 ended: its hours were over" in (cluster.lost() or "")


def test_the_next_zone_is_asked_where_one_is_full(
    world: World,
    allowance: Allowance,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path, monkeypatch)
    world.full = frozenset({"us-east-1a", "us-east-1b"})
    with (
        pytest.raises(ProbeFailed, match=r"us-east-1a: none left; .* us-east-1b: none left"),
        open_cluster("ec2", WORKER, None),
    ):
        pass
    assert [intent.zone for intent in world.asked] == ["us-east-1a", "us-east-1b"]
    assert len({intent.token for intent in world.asked}) == 2
    assert world.lock_held_by == {f"process {os.getpid()}"}
    assert len(Book().read().refused) == 2
    assert len([line for line in said if line.startswith("no capacity")]) == 2


def test_instances_that_cannot_be_used_are_ended(
    world: World, allowance: Allowance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch)
    world.volumes = "i-0 has volumes of 200 GB"
    with pytest.raises(ProbeFailed, match="200 GB"), open_cluster("ec2", WORKER, None):
        pass
    assert world.alive == []


def test_what_cannot_be_ended_is_told_and_its_owner_remembered(
    world: World,
    allowance: Allowance,
    said: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(tmp_path, monkeypatch)
    world.volumes, world.will_not_end = "too large", True
    monkeypatch.setattr("profilers.renting.renter.FIRST_PAUSE_S", 0.0)
    monkeypatch.setattr(Ec2Cluster, "_end", lambda *_: None)
    monkeypatch.setattr("profilers.renting.renter.Renter.settle", _impatient())
    with pytest.raises(ProbeFailed, match="too large"), open_cluster("ec2", WORKER, None):
        pass
    assert any("COULD NOT END i-0" in line for line in said)
    assert owner.folder() in owner._remembered  # noqa: SLF001
    owner._remembered.clear()  # noqa: SLF001


def _impatient() -> Any:
    from profilers.renting.renter import Renter

    settle = Renter.settle
    return lambda renter, intents: settle(renter, intents, 0.0)


def test_a_launch_that_is_interrupted_is_ended(
    world: World, allowance: Allowance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch)

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(world, "check_volumes", interrupted)
    with pytest.raises(KeyboardInterrupt), open_cluster("ec2", WORKER, None):
        pass
    assert world.states == {"i-0": "ending"}


def test_nothing_is_rented_that_nobody_allowed(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, monkeypatch)
    with pytest.raises(BadInput, match="say with --max-usd"):
        open_cluster("ec2", WORKER, None)
    with (
        use_allowance(Allowance(1.0, {})),
        pytest.raises(BadInput, match=f"stepcast prices collect --type {NODE_TYPE}"),
        open_cluster("ec2", WORKER, None),
    ):
        pass
    assert world.asked == []


def test_a_key_and_a_group_are_made_for_a_cluster_and_go_after_its_nodes(
    world: World, allowance: Allowance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = {name: LAUNCH[name] for name in ("region", "image", "subnets")}
    write(tmp_path, monkeypatch, ec2={**named, "ssh_from": "203.0.113.7"})
    world.volumes = "a volume is too large"
    with pytest.raises(ProbeFailed, match="too large"), open_cluster("ec2", WORKER, None):
        pass
    assert world.how is not None and world.how.security_groups == ("sg-203.0.113.7",)
    assert str(world.how.key_name).startswith(f"stepcast-{owner.token()}-")
    assert (world.states, world.accesses) == ({"i-0": "ending"}, set())
    assert not Book().read().accesses
