"""The host's list of congestion controls is as it was, whatever ends who changed it."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from profilers.clusters import netns, open_cluster, reap
from profilers.clusters.netns import ALLOWED, allow_congestion_control
from profilers.clusters.node_types import node_group
from profilers.steady.hostlock import host_lock

pytestmark = pytest.mark.cluster

CHANGE = """
import sys
from profilers.clusters.netns import allow_congestion_control
with allow_congestion_control("cubic"):
    print("changed", flush=True)
    sys.stdin.read()
"""


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


def test_what_a_killed_process_changed_is_put_back() -> None:
    leave_changed()
    assert listed() == {"reno", "cubic"}
    reap()
    assert listed() == {"reno"}
    assert not netns.restore_congestion_control()


def test_the_next_one_puts_it_back_too() -> None:
    leave_changed()
    with allow_congestion_control("cubic"):
        pass
    assert listed() == {"reno"}


def test_what_somebody_changed_since_stays() -> None:
    leave_changed()
    ALLOWED.write_text("cubic")
    assert not netns.restore_congestion_control()
    assert listed() == {"cubic"}


def test_half_a_record_is_of_no_change() -> None:
    with allow_congestion_control("cubic"):
        pass
    netns.RECORD.write_text('[["bbr"], ["re')
    assert not netns.restore_congestion_control()
    assert listed() == {"reno"}
    assert netns.RECORD.read_text() == ""


def leave_changed() -> None:
    """Have a process change the list, and kill it."""
    with subprocess.Popen(
        [sys.executable, "-c", CHANGE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as changing:
        assert changing.stdout is not None
        assert changing.stdout.readline() == "changed\n"
        changing.kill()


def test_the_record_is_roots_alone() -> None:
    with allow_congestion_control("cubic"):
        assert netns.RECORD.parent.stat().st_mode & 0o777 == 0o700
