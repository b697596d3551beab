"""Which windows of a running job count, those in which the host was left in peace; who trains."""

import itertools
from collections.abc import Sequence

import pytest

from profilers.clusters import Node
from profilers.host import CpuTimes
from profilers.tf_job import StepTime
from profilers.tf_throughput import PATIENCE_S, Recorder, workers_of
from warehouse.records import NodeGroup, Scenario, Strategy, Workload

STEP_US = 100_000


def recorded(stolen: Sequence[float]) -> Recorder:
    """Feed steps of one worker until the recorder has enough; `stolen` is of each window."""
    shares = itertools.chain([0.0], stolen)
    ticks = itertools.accumulate(
        ((10 * share, 10.0) for share in shares),
        lambda sums, more: (sums[0] + more[0], sums[1] + more[1]),
    )
    times = (CpuTimes(total / 2, taken, total) for taken, total in ticks)
    # Each window asks twice: when it ends, and when the next one opens.
    asked = itertools.chain.from_iterable((one, one) for one in times)
    recorder = Recorder(lambda: next(asked), workers=1, windows=2, window_s=1.0)
    for step in range(10_000):
        if recorder.until(0, StepTime(step * STEP_US, (step + 1) * STEP_US)):
            return recorder
    raise AssertionError("never enough")


def test_quiet_windows_all_count() -> None:
    recorder = recorded([0.0, 0.01])
    assert [one.stolen for one in recorder.counted] == pytest.approx([0.0, 0.01])
    assert recorder.counted == recorder.measured


def test_a_disturbed_window_is_measured_again() -> None:
    recorder = recorded([0.2, 0.0, 0.01])
    assert [one.stolen for one in recorder.counted] == pytest.approx([0.0, 0.01])
    assert len(recorder.measured) == 3


def test_where_it_is_never_quiet_the_least_disturbed_count() -> None:
    stolen = [0.2, 0.05, 0.4, 0.1] + 100 * [0.3]
    recorder = recorded(stolen)
    assert len(recorder.measured) == 2 + PATIENCE_S
    assert [one.stolen for one in recorder.counted] == pytest.approx([0.05, 0.1])


def nodes(*names: str) -> list[Node]:
    """Return workers of these types, as a cluster of them all lists them."""
    groups = {
        name: NodeGroup(role="worker", node_type=name, count=names.count(name)) for name in names
    }
    return [Node(f"n{i}", "worker", i, f"10.0.0.{i}", groups[name]) for i, name in enumerate(names)]


def test_workers_of_each_type_train() -> None:
    up = nodes("a", "a", "b", "b")
    server = NodeGroup(role="server", node_type="s", count=1)
    whole = Scenario(
        workload=Workload(dnn="small_cnn", image_size=16, batch_size=2),
        strategy=Strategy(workers=4),
        nodes=(up[0].group, up[2].group, server),
    )
    for workers, expected in ((1, [0]), (2, [0, 2]), (3, [0, 1, 2]), (4, [0, 1, 2, 3])):
        chosen = workers_of(whole.with_workers(workers), up)
        assert [node.index for node in chosen] == expected


def test_groups_of_one_type_do_not_share_nodes() -> None:
    up = nodes("a", "a", "b")
    one, other = up[0].group.one, up[2].group
    server = NodeGroup(role="server", node_type="s", count=1)
    asked = Scenario(
        workload=Workload(dnn="small_cnn", image_size=16, batch_size=2),
        strategy=Strategy(workers=3),
        nodes=(one, other, one, server),
    )
    assert [node.index for node in workers_of(asked, up)] == [0, 2, 1]
