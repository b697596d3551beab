"""The emulated cluster for real: needs root and network namespaces."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from profilers.clusters import cgroups, open_cluster, reap
from profilers.clusters.emulated import EmulatedCluster
from profilers.clusters.node_types import node_group
from profilers.probe import RequestedScenarios
from tests.leftovers import left_behind
from tests.profilers.training import measured, with_server
from warehouse.records import BadInput, NodeGroup

pytestmark = pytest.mark.cluster

SERVER = node_group("server", "emu.server", 1)
WORKERS = node_group("worker", "emu.native.c25", 2)
SPIN = """
import sys, time
sys.stdin.readline()
began, had = time.monotonic(), time.process_time()
while time.monotonic() < began + 2:
    pass
print((time.process_time() - had) / (time.monotonic() - began))
"""


def test_leaves_nothing_behind(home: Path) -> None:
    with open_cluster("emulated", (SERVER, WORKERS), 100) as cluster:
        assert left_behind()
        assert cluster.facts()["congestion_control"] == "cubic"
        cluster.popen(cluster.nodes[0], ["sleep", "1000"])
    assert left_behind() == []


@pytest.mark.measuring
def test_links_are_shaped_in_both_directions(tmp_path: Path) -> None:
    pair = with_server(2).model_copy(update={"link_mbps": 80})
    asked = RequestedScenarios(cluster=(pair,))
    (result,) = measured("links", tmp_path, asked, flows=(1, 2), seconds=1, trials=1)
    table = result.tables["link"]
    assert sorted(set(table["direction"])) == ["downlink", "uplink"]
    together = table.group_by("direction", "flows").sum()
    for direction, flows, total in together.select("direction", "flows", "bandwidth_Bps").rows():
        # Several flows are not counted over the same second: their sum may exceed the link.
        assert 1e6 < total < 10.5e6 * (1 if flows == 1 else 1.5), (direction, flows)
    assert (tmp_path / "iperf3.json").stat().st_size > 1000


def test_nodes_come_and_go_and_the_others_stay(home: Path) -> None:
    with EmulatedCluster((), 100) as cluster:
        (first,), (second,) = cluster.add(WORKERS.one), cluster.add(WORKERS.one)
        assert (first.address, second.address) == ("10.77.0.1", "10.77.0.2")
        listener = cluster.popen(second, [*LISTEN, second.address])
        sleeper = cluster.popen(first, ["sleep", "1000"])
        assert listener.stdout is not None
        assert listener.stdout.readline() == "ready\n"
        before = left_behind()
        cluster.remove(first)
        assert sleeper.returncode is not None
        gone = set(before) - set(left_behind())
        assert {name.rpartition("-")[2] for name in gone} == {first.name}
        (third,) = cluster.add(WORKERS.one)
        assert third.name not in (first.name, second.name)
        assert cluster.run(third, [*CONNECT, second.address]).strip() == "heard"
        with pytest.raises(BadInput, match="CPU shares add up to"):
            cluster.add(node_group("worker", "emu.avx2.1c", 1).model_copy(update={"cpu_share": 99}))
        assert cluster.nodes == (second, third)


def test_two_clusters_at_once_do_not_collide() -> None:
    with (
        open_cluster("emulated", (SERVER, WORKERS), 100) as first,
        open_cluster("emulated", (SERVER, WORKERS), 50) as second,
    ):
        for cluster in (first, second):
            address = cluster.of_role("worker")[0].address
            listener = cluster.popen(cluster.of_role("worker")[0], [*LISTEN, address])
            assert listener.stdout is not None
            assert listener.stdout.readline() == "ready\n"
            answer = cluster.run(cluster.of_role("server")[0], [*CONNECT, address])
            assert answer.strip() == "heard"


def limit_of(pid: int) -> float:
    """Return cores that the control group of a process may use."""
    version, root = cgroups.controllers()["cpu"]
    files = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    groups = (path.parent for path in root.glob("*/cgroup.procs") if str(pid) in words(path))
    group = next(groups)
    quota, period = (int(word) for file in files for word in words(group / file))
    return quota / period


def words(path: Path) -> list[str]:
    return path.read_text().split()


@pytest.mark.measuring
def test_a_confined_process_gets_its_share(alone: None) -> None:
    group = NodeGroup(role="worker", node_type="slow", count=1, cpu_share=0.1)
    with EmulatedCluster((group,), None) as cluster:
        node = cluster.nodes[0]
        process = cluster.popen(node, [sys.executable, "-c", SPIN])
        cluster.confine(node, process)
        assert limit_of(process.pid) == pytest.approx(0.1)
        output, _ = process.communicate("go\n", timeout=60)
    assert 0.01 < float(output) < 0.5, "a tenth of a core, on a busy host or on a quiet one"


def test_a_process_above_its_nodes_memory_is_killed() -> None:
    group = NodeGroup(role="worker", node_type="tiny", count=1, memory_bytes=64 * 2**20)
    greedy = "import sys; sys.stdin.readline(); print(len(b'x' * (200 * 2**20)))"
    with open_cluster("emulated", (group,), None) as cluster:
        node = cluster.nodes[0]
        process = cluster.popen(node, [sys.executable, "-c", greedy])
        cluster.confine(node, process)
        output, _ = process.communicate("go\n", timeout=60)
        assert process.returncode == -signal.SIGKILL
        assert output == ""


def test_what_a_killed_owner_left_is_reaped(home: Path) -> None:
    owning = subprocess.Popen(
        [sys.executable, "-c", OWN], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owning.stdout is not None
    prefix = owning.stdout.readline().strip()
    left = {name for name in left_behind() if name.startswith(prefix)}
    assert left
    assert not left & set(reap()), "reaped a living owner's cluster"
    owning.kill()
    owning.wait()
    assert left <= set(reap())
    assert not {name for name in left_behind() if name.startswith(prefix)}


OWN = """
import sys
from profilers.clusters import open_cluster
from profilers.clusters.node_types import node_group
groups = (node_group("server", "emu.server", 1), node_group("worker", "emu.native.c25", 1))
with open_cluster("emulated", groups, 100) as cluster:
    # Until a program is started, it holds the lock of its owner, too.
    cluster.popen(cluster.nodes[0], ["sleep", "1000"])
    print(cluster._network.prefix, flush=True)
    sys.stdin.read()
"""
LISTEN = [
    sys.executable,
    "-c",
    "import socket, sys; s = socket.create_server((sys.argv[1], 6000)); print('ready', flush=True);"
    "s.accept()[0].sendall(b'heard')",
]
CONNECT = [
    sys.executable,
    "-c",
    "import socket, sys; print(socket.create_connection((sys.argv[1], 6000)).recv(9).decode())",
]
