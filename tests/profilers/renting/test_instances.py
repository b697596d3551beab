"""A cluster of instances that are there, rented over HTTP: from a launch to its end."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from profilers.clusters import cgroups, netns, open_cluster, owner
from profilers.clusters.fleet import VARIABLE
from profilers.clusters.node_types import node_group
from profilers.renting.book import Book
from profilers.renting.cap import Allowance, Rate, use_allowance
from profilers.steady import hostlock
from tests.profilers.renting import instances as command_of
from tests.profilers.renting import served as standing_in
from tests.profilers.renting.cloud import Cloud
from tests.profilers.renting.instances import NODE_TYPE, Instances, instances
from warehouse.records import ProbeFailed

pytestmark = [pytest.mark.sshd, pytest.mark.cluster]
cloud, served = standing_in.cloud, standing_in.served
RATE = Rate(usd_per_hour=0.096, most_usd_per_hour=0.096, source="test")


@pytest.fixture
def rented(
    cloud: Cloud,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Instances]:
    # Nothing is measured here that others would spoil, so nobody is waited for.
    monkeypatch.setattr(hostlock, "NAME", f"\0stepcast-test-{tmp_path}")
    with instances(tmp_path, cloud) as (stand_in, fleet):
        monkeypatch.setenv(VARIABLE, str(fleet))
        with use_allowance(Allowance(1.0, {(NODE_TYPE, "on_demand"): RATE}, account="a")):
            yield stand_in


def test_instances_are_rented_talked_to_and_ended(rented: Instances, cloud: Cloud) -> None:
    cloud.full = {("us-east-1a", "on_demand")}
    workers = (node_group("worker", NODE_TYPE, 2),)
    with open_cluster("ec2", workers, None) as cluster:
        homes = {cluster.run(node, ["pwd"]).strip() for node in cluster.nodes}
        assert homes == {str(host.folder) for host in rented.alive.values()}
        assert len(homes) == 2
        assert cluster.lost() is None
        assert {*cloud.alive()} == {*rented.alive} == {*Book().read().living}
        sshds = [host.sshd for host in rented.alive.values()]
    assert not cloud.alive() and not rented.alive
    assert all(sshd.poll() is not None for sshd in sshds)
    assert not _nodes(netns.namespaces()) and not cgroups.names(owner.PREFIX + "-" + owner.token())
    assert len(Book().read().ended) == 2


def _nodes(names: Sequence[str]) -> list[str]:
    """Return which of these namespaces are nodes of this home."""
    return [name for name in names if owner.is_living(name) and not name.endswith("switch")]


def test_an_instance_that_shuts_itself_down_is_lost_and_ends(
    rented: Instances, cloud: Cloud
) -> None:
    with open_cluster("ec2", (node_group("worker", NODE_TYPE, 1),), None) as cluster:
        (node,), (id_,) = cluster.nodes, rented.alive
        cluster.run(node, ["shutdown", "-P", "now"])
        deadline_s = time.monotonic() + 30
        while cloud.alive() and time.monotonic() < deadline_s:
            time.sleep(0.05)
        assert f"{id_} ended" in str(cluster.lost())
        with pytest.raises(ProbeFailed):
            cluster.run(node, ["true"])
    assert rented.alive == {}


@pytest.mark.exhaustive
def test_a_command_finds_one_fleet_each_time_and_keeps_its_exit_code(home: Path) -> None:
    """So what one command has measured, the next one goes on with."""
    words = "from profilers.clusters import host_id; print(host_id('ec2')); raise SystemExit(3)"
    command = [sys.executable, "-m", command_of.__name__, sys.executable, "-c", words]
    runs = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(2)]
    assert [run.returncode for run in runs] == [3, 3], runs[0].stderr
    assert runs[0].stdout == runs[1].stdout != ""
    assert [run.stderr for run in runs] == ["", ""]
