"""The host's list of congestion controls is as it was."""

from collections.abc import Iterator

import pytest

from profilers.clusters import open_cluster
from profilers.clusters.netns import ALLOWED, allow_congestion_control
from profilers.clusters.node_types import node_group
from profilers.steady.hostlock import host_lock

pytestmark = [pytest.mark.cluster, pytest.mark.measuring]


def listed() -> set[str]:
    """Return what namespaces may choose at the moment."""
    return set(ALLOWED.read_text().split())


@pytest.fixture(autouse=True)
def without_cubic() -> Iterator[None]:
    """Have the list without cubic during a test, while nobody else brings a cluster up."""
    with host_lock():
        before = ALLOWED.read_text()
        ALLOWED.write_text("reno")
        yield
        ALLOWED.write_text(before)


def test_a_cluster_leaves_the_list_as_it_was() -> None:
    with open_cluster("emulated", [node_group("worker", "emu.native.c25", 1)], 100) as cluster:
        assert cluster.facts()["congestion_control"] == "cubic"
        assert listed() == {"reno"}
    assert listed() == {"reno"}


def test_it_holds_what_is_asked_for_meanwhile() -> None:
    with allow_congestion_control("cubic"):
        assert listed() == {"reno", "cubic"}
    assert listed() == {"reno"}
