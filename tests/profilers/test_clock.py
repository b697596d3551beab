"""Times that nobody can set."""

import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from profilers import clock
from profilers.clusters.base import LoopbackCluster
from profilers.tf_trace.probe import PROBE, TRIES
from tests.clocks import DAY, WallClock
from warehouse.records import NodeGroup, ProbeFailed

BOTH_WAYS = pytest.mark.parametrize("by", [DAY, -DAY])
WORKER = NodeGroup(role="worker", node_type="w", count=1)
READ = "from profilers import clock; print(clock.now_us())"


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> WallClock:
    """Return the wall clock."""
    return WallClock(monkeypatch)


@BOTH_WAYS
def test_dates_stay_in_order_and_as_far_apart(wall: WallClock, by: timedelta) -> None:
    before = clock.now()
    wall.set(by)
    assert timedelta(0) <= clock.now() - before < timedelta(minutes=1)


def read_us(cluster: LoopbackCluster) -> int:
    """Return what a program of a node takes for the time."""
    (node,) = cluster.nodes
    process = cluster.popen(node, [*cluster.python(node), "-c", READ])
    assert process.stdout is not None
    return int(process.stdout.read())


@BOTH_WAYS
def test_programs_of_a_cluster_agree(wall: WallClock, by: timedelta) -> None:
    """They go on with the clock of when it came up."""
    wall.set(by)
    with LoopbackCluster([WORKER], None) as cluster:
        assert abs(read_us(cluster) - time.time_ns() // 1000) < 60e6


def test_programs_of_another_machine_read_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackCluster([WORKER], None) as cluster:
        monkeypatch.setattr(cluster, "clock", {clock.VARIABLE: "another-boot 12345"})
        assert abs(read_us(cluster) - time.time_ns() // 1000) < 60e6


@BOTH_WAYS
def test_traces_beside_our_times_are_refused(wall: WallClock, by: timedelta) -> None:
    given = clock.environment()
    clock.check_unset(given)
    wall.set(by)
    with pytest.raises(ProbeFailed, match=r"the wall clock was set by [+-]86400.000 s"):
        clock.check_unset(given)


@pytest.mark.parametrize("often", [1, TRIES])
def test_steps_are_traced_again_where_the_clock_is_set(
    often: int, wall: WallClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster, said, given = LoopbackCluster([WORKER], None), list[str](), list[str]()

    def traced_run(session: Any, need: Any) -> str:
        given.append(session.cluster.clock[clock.VARIABLE])
        if len(given) <= often:
            wall.set(DAY)
            raise clock.ClockSet("the wall clock was set")
        return "traced"

    monkeypatch.setattr("profilers.tf_trace.probe.traced_run", traced_run)
    session: Any = SimpleNamespace(cluster=cluster, say=said.append)
    if often == TRIES:
        with pytest.raises(clock.ClockSet):
            list(PROBE.run(session, [cast(Any, None)]))
    else:
        assert list(map(str, PROBE.run(session, [cast(Any, None)]))) == ["traced"]
    # Programs of the next try read the clock as it is then.
    assert len(set(given)) == len(said) + 1 == min(often + 1, TRIES)
