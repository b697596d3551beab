"""A cluster of instances that have no open port: commands go by SSM, their words through S3."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from profilers.clusters import Cluster, Node, open_cluster
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_group
from profilers.renting import ssm
from profilers.renting.cap import Allowance, Rate, use_allowance
from profilers.steady import hostlock
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.cloud import REGION, Cloud
from tests.profilers.renting.instances import NODE_TYPE
from tests.profilers.renting.managed import BUCKET, Managed, managed, moto
from tests.profilers.renting.portless import Instance
from warehouse.records import ProbeFailed

pytestmark = pytest.mark.cluster
served = standing_in.served
RATE = Rate(usd_per_hour=0.096, most_usd_per_hour=0.096, source="test")


@pytest.fixture(scope="module")
def cluster(
    served: tuple[Cloud, dict[str, str]], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Cluster, Managed]]:
    """A cluster of two instances, which tests of this module share."""
    folder = tmp_path_factory.mktemp("managed")
    with pytest.MonkeyPatch.context() as patch, managed(folder, served[0]) as (rented, fleet):
        patch.setenv("STEPCAST_HOME", str(folder))
        patch.setenv(VARIABLE, str(fleet))
        # Nothing is measured here that others would spoil, so nobody is waited for.
        patch.setattr(hostlock, "NAME", f"\0stepcast-test-{folder}")
        patch.setattr("profilers.renting.ssm._EVERY_S", 0.1)
        workers = (node_group("worker", NODE_TYPE, 2),)
        with use_allowance(Allowance(1.0, {(NODE_TYPE, "on_demand"): RATE}, account="a")):
            with open_cluster("ec2", workers, None) as opened:
                yield opened, rented
        assert rented.alive == {}


@pytest.fixture
def cloud_of(served: tuple[Cloud, dict[str, str]]) -> Cloud:
    return served[0]


def running(instance: Instance) -> list[str]:
    """Return what runs on an instance but what keeps its lock and the errands themselves."""
    return [process for process in instance.processes() if "sleep 1000" in process]


def awaited(ask: Callable[[], object], within_s: float = 60.0) -> bool:
    """Wait until something is so; tell whether it is."""
    deadline_s = time.monotonic() + within_s
    while not (so := ask()) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return bool(so)


def instance_of(rented: Managed, node: Node) -> Instance:
    return next(instance for instance in rented.alive.values() if instance.address == node.address)


def test_programs_run_where_nothing_listens_and_speak_both_ways(
    cluster: tuple[Cluster, Managed], tmp_path: Path
) -> None:
    opened, rented = cluster
    first, second = opened.nodes
    assert {opened.run(node, ["pwd"]).strip() for node in opened.nodes} == {
        str(instance.folder / "lib") for instance in rented.alive.values()
    }
    assert opened.lost() is None
    process = opened.popen(second, ["sh", "-c", "read a; echo got $a; echo bad >&2; exit 3"])
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write("word\n")
    assert process.stdout.readline() == "got word\n"
    assert process.wait(timeout=30) == 3
    with pytest.raises(ProbeFailed, match="exited with 7: no such luck"):
        opened.run(first, ["sh", "-c", "echo no such luck >&2; exit 7"])


def test_a_program_that_is_killed_here_ends_there_and_its_objects_go(
    cluster: tuple[Cluster, Managed], cloud_of: Cloud
) -> None:
    opened, rented = cluster
    node = opened.nodes[0]
    process = opened.popen(node, ["sh", "-c", "echo up; exec sleep 1000"])
    assert process.stdout is not None and process.stdout.readline() == "up\n"
    assert running(instance_of(rented, node))
    process.kill()
    assert process.wait(timeout=10) == -signal.SIGKILL
    assert awaited(lambda: not running(instance_of(rented, node)))
    # What keeps the machines' locks goes on.
    assert awaited(lambda: len(kept(cloud_of)) == 2 * len(opened.nodes))


def test_faults_on_the_way_change_nothing(
    cluster: tuple[Cluster, Managed], cloud_of: Cloud
) -> None:
    """Calls are throttled, answers lost, credentials expire; the command runs once all the same."""
    opened, rented = cluster
    node, before = opened.nodes[0], len(rented.ran)
    cloud_of.faults = ["throttled", "after", "expired", "unavailable"]
    cloud_of.object_faults = ["throttled", "expired", "fine", "fine", *["throttled", "before"] * 6]
    printed = opened.run(node, ["sh", "-c", "echo once >> times; cat times"], timeout_s=60)
    assert printed == "once\n"
    assert cloud_of.faults == []
    assert len(rented.ran) == before + 2  # the command whose answer was lost was delivered too


def test_an_instance_without_python_says_so(cluster: tuple[Cluster, Managed]) -> None:
    opened, rented = cluster
    reach = reach_of(opened, rented)
    ran = session_of(reach.model_copy(update={"python": "/no/python"}), "true")
    assert ran.returncode == 255
    assert "Failed: no /no/python here" in ran.stderr


@pytest.mark.exhaustive
def test_an_errand_ends_when_its_time_is_over_though_its_controller_is_there(
    cluster: tuple[Cluster, Managed],
) -> None:
    opened, rented = cluster
    reach = reach_of(opened, rented).model_copy(update={"life_s": 3.0})
    ran = session_of(reach, "echo up; exec sleep 1000")
    assert (ran.returncode, ran.stdout) == (-signal.SIGKILL, "up\n")
    assert awaited(lambda: not running(next(iter(rented.alive.values()))))


@pytest.mark.exhaustive
def test_an_errand_ends_when_its_controllers_are_killed(
    cluster: tuple[Cluster, Managed],
) -> None:
    """The program here and the process that watches it are killed at once, so nobody ends it."""
    opened, rented = cluster
    reach = reach_of(opened, rented).model_copy(update={"silence_s": 5.0})
    words = [*ssm.words(reach), "echo up; setsid sleep 1000 & exec sleep 1000"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None and child.stdout.readline() == "up\n"
        assert running(next(iter(rented.alive.values())))
        children = Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        for pid in (*map(int, children), child.pid):
            os.kill(pid, signal.SIGKILL)
    assert awaited(lambda: not running(next(iter(rented.alive.values()))))


@pytest.mark.exhaustive
def test_a_command_that_was_not_delivered_is_cancelled(
    cluster: tuple[Cluster, Managed],
) -> None:
    opened, rented = cluster
    rented.is_delivered = False
    process = opened.popen(opened.nodes[0], ["true"])
    before = set(rented.ran)
    assert awaited(lambda: set(rented.ran) - before)
    (command,) = set(rented.ran) - before
    rented.is_delivered = True
    # Its id is known to the process that watches, once this one has read the answer.
    assert awaited(lambda: rented.ran[command].asked > 0)
    process.kill()
    assert process.wait(timeout=10) == -signal.SIGKILL
    assert awaited(lambda: command in rented.cancelled)


def reach_of(opened: Cluster, rented: Managed) -> ssm.Reach:
    """Return how the first instance is reached."""
    id_ = next(iter(rented.alive))
    return ssm.Reach(
        region=REGION,
        instance=id_,
        bucket=BUCKET,
        folder=f"{ssm.PREFIX}/test",
        python=sys.executable,
        life_s=600.0,
    )


def session_of(reach: ssm.Reach, command: str) -> "subprocess.CompletedProcess[str]":
    words = [*ssm.words(reach), command]
    return subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def kept(cloud: Cloud) -> list[str]:
    """Return the objects that are in the bucket."""
    contents = moto(cloud, "s3").list_objects_v2(Bucket=BUCKET).get("Contents", ())
    return [entry["Key"] for entry in contents]
