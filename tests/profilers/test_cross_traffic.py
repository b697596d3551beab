"""Traffic of a neighbour, for real: it needs shaped links."""

import time
from collections.abc import Iterator

import pytest

from profilers.clusters import Cluster, open_cluster
from profilers.clusters.node_types import node_group
from profilers.cross_traffic import cross_traffic, received_bytes
from profilers.steady.hostlock import host_lock
from warehouse.records import BadInput, ProbeFailed

pytestmark = [pytest.mark.cluster, pytest.mark.measuring]

SERVER, WORKER = node_group("server", "emu.server", 1), node_group("worker", "emu.native.c25", 1)
NEIGHBOUR = node_group("neighbour", "emu.server", 1)
LINK_MBPS = 80


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with host_lock(), open_cluster("emulated", (SERVER, WORKER, NEIGHBOUR), LINK_MBPS) as opened:
        yield opened


def running(cluster: Cluster) -> str:
    return cluster.run(cluster.nodes[0], ["ps", "-eo", "args"])


def test_a_neighbour_takes_its_part_of_the_link_and_no_more(cluster: Cluster) -> None:
    with cross_traffic(cluster, 0.25):
        had_bytes, from_s = received_bytes(cluster), time.monotonic()
        time.sleep(2)
        rate_Bps = (received_bytes(cluster) - had_bytes) / (time.monotonic() - from_s)
        assert "--bidir" in running(cluster)
    # Headers come on top of what iperf3 counts.
    assert 0.1 < rate_Bps * 8e-6 / LINK_MBPS < 0.4
    assert "--bidir" not in running(cluster)


def test_none_is_none(cluster: Cluster) -> None:
    with cross_traffic(cluster, None):
        assert "--bidir" not in running(cluster)


def test_traffic_that_ends_early_is_told(cluster: Cluster) -> None:
    with pytest.raises(ProbeFailed, match="ended early"), cross_traffic(cluster, 0.25):
        cluster.run(cluster.nodes[0], ["pkill", "-KILL", "-f", "--", "--bidir"])
        time.sleep(0.5)


def test_a_neighbour_is_needed() -> None:
    with (
        host_lock(),
        open_cluster("emulated", (SERVER, WORKER), LINK_MBPS) as cluster,
        pytest.raises(BadInput, match="found 80 Mb/s and 0 neighbour"),
        cross_traffic(cluster, 0.25),
    ):
        pass
