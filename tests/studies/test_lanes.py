"""Lanes run beside each other, stop together, and take their clusters down."""

import os
import signal
import threading
from collections.abc import Iterator, Sequence

import pytest

from profilers.clusters.base import LoopbackCluster
from studies.measurement import Clusters, divide_by_machine, run_in_parallel
from warehouse.records import ProbeFailed

WAIT_S = 30.0


class Cluster(LoopbackCluster):
    """Of no nodes; counts how often it was taken down."""

    def __init__(self) -> None:
        super().__init__((), None)
        self.downs = 0
        self.is_down = threading.Event()

    def down(self) -> None:
        super().down()
        self.downs += 1
        self.is_down.set()


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([], []),
        (["a", "b", "a"], [["a", "a"], ["b"]]),
        (["a", "b", "ab", "c"], [["a", "b", "ab"], ["c"]]),
        (["ab", "bc", "d", "ac"], [["d"], ["ab", "bc", "ac"]]),
    ],
)
def test_what_needs_the_same_kind_of_machine_is_in_one_lane(
    items: list[str], expected: list[list[str]]
) -> None:
    assert sorted(divide_by_machine(items, frozenset)) == sorted(expected)


def test_lanes_run_at_the_same_time_and_each_in_its_order() -> None:
    met, order = threading.Barrier(2, timeout=WAIT_S), []

    def run(item: str, clusters: Clusters) -> None:
        if item[1] == "1":
            met.wait()
        order.append(item)

    run_in_parallel([["a1", "a2"], ["b1", "b2"]], run)
    assert order.index("a1") < order.index("a2")
    assert order.index("b1") < order.index("b2")


def test_a_single_lane_needs_no_thread() -> None:
    threads = []
    run_in_parallel([["a", "b"]], lambda item, clusters: threads.append(threading.current_thread()))
    assert threads == [threading.main_thread()] * 2


def test_a_failure_ends_its_lane_only_and_is_raised_at_the_end() -> None:
    failed, done = threading.Event(), []

    def run(item: str, clusters: Clusters) -> None:
        if item == "a1":
            failed.set()
            raise ProbeFailed("a1 failed")
        assert failed.wait(WAIT_S)
        done.append(item)

    with pytest.raises(ProbeFailed, match="a1 failed"):
        run_in_parallel([["a1", "a2"], ["b1", "b2"]], run)
    assert done == ["b1", "b2"]


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let SIGINT be what Ctrl-C is, also where tests run in a process that ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_takes_down_what_is_up_and_nothing_begins_after_it() -> None:
    up, found, begun = threading.Barrier(2, timeout=WAIT_S), [Cluster(), Cluster()], []

    def run(item: int, clusters: Clusters) -> None:
        begun.append(item)
        with clusters.opened(found[item]) as cluster:
            if up.wait() == 0:
                # Once the main thread waits for its lanes.
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            # A probe ends when its programs are killed, which is when its cluster is taken down.
            assert isinstance(cluster, Cluster)
            assert cluster.is_down.wait(WAIT_S)
            clusters.check_not_stopped()

    several: Sequence[Sequence[int]] = [[0, 0], [1, 1]]
    with pytest.raises(KeyboardInterrupt):
        run_in_parallel(several, run)
    assert sorted(begun) == [0, 1]
    assert all(cluster.downs >= 2 for cluster in found), "by who waited, and by its own lane"


def test_no_cluster_comes_up_once_lanes_are_stopped() -> None:
    clusters, cluster = Clusters(), Cluster()
    clusters.stop()
    with pytest.raises(ProbeFailed, match="stopped"), clusters.opened(cluster):
        pytest.fail("came up")
    assert cluster.downs == 0
