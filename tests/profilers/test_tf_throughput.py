"""Which windows of a running job count, those in which the host was left in peace; who trains."""

import itertools
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.clusters import Node
from profilers.nodes.tf_jobs import StepTime
from profilers.steady.host import CpuTimes
from profilers.tf_throughput.probe import PATIENCE_S, Recorder, workers_of
from profilers.windows import Window, Windows, half_width, is_stationary, steps_per_s
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

STEP_US = 100_000
TWO = Windows(windows=2, window_s=1.0)
ALIKE = itertools.repeat(STEP_US)


def recorded(
    stolen: Sequence[float], asked_for: Windows = TWO, lengths_us: Iterable[int] = ALIKE
) -> Recorder:
    """Feed steps of one worker until the recorder has enough; `stolen` is of each window."""
    shares = itertools.chain([0.0], stolen)
    ticks = itertools.accumulate(
        ((10 * share, 10.0) for share in shares),
        lambda sums, more: (sums[0] + more[0], sums[1] + more[1]),
    )
    times = (CpuTimes(total / 2, taken, total) for taken, total in ticks)
    # Each window asks twice: when it ends, and when the next one opens.
    readings = itertools.chain.from_iterable((reading, reading) for reading in times)
    recorder = Recorder(lambda: next(readings), workers=1, asked=asked_for)
    start_us = 0
    for length_us in itertools.islice(lengths_us, 10_000):
        if recorder.until(0, StepTime(start_us, start_us + length_us)):
            return recorder
        start_us += length_us
    raise AssertionError("never enough")


def test_a_disturbed_window_is_measured_again() -> None:
    recorder = recorded([0.2, 0.0, 0.01])
    assert [window.stolen for window in recorder.counted] == pytest.approx([0.0, 0.01])
    assert len(recorder.measured) == 3


def test_where_it_is_never_quiet_the_least_disturbed_count() -> None:
    stolen = [0.2, 0.05, 0.4, 0.1] + 100 * [0.3]
    recorder = recorded(stolen)
    assert len(recorder.measured) == PATIENCE_S
    assert [window.stolen for window in recorder.counted] == pytest.approx([0.05, 0.1])


def test_windows_go_on_until_their_mean_is_known() -> None:
    asked_for = Windows(windows=2, window_s=1.0, interval=0.02, most_windows=30)
    same = recorded([0.0] * 30, asked_for)
    assert len(same.measured) == 2
    scatter = Random(3)
    steps = (round(STEP_US * scatter.uniform(0.85, 1.15)) for _ in itertools.count())
    other = recorded([0.0] * 31, asked_for, steps)
    assert 2 < len(other.measured) < 30
    rates = [steps_per_s(other.series, window.value) for window in other.counted]
    assert half_width(rates) <= 0.02 < half_width(rates[:-1])
    wild = (round(STEP_US * scatter.uniform(0.05, 6)) for _ in itertools.count())
    assert len(recorded([0.0] * 31, asked_for, wild).measured) == 30


def several(length_us: int, workers: int, asked_for: Windows) -> tuple[Recorder, int]:
    """Feed steps of workers that take turns until there is enough; return when that was."""
    still = CpuTimes(1, 0, 2)
    recorder = Recorder(lambda: still, workers, asked_for)
    began_us = time.time_ns() // 1000
    for step in range(1000):
        for worker in range(workers):
            end_us = began_us + step * length_us + (worker + 1) * length_us // workers
            if recorder.until(worker, StepTime(end_us - length_us, end_us)):
                return recorder, end_us
    raise AssertionError("never enough")


def test_windows_shorter_than_steps_end_too() -> None:
    recorder, _ = several(5 * STEP_US, 3, Windows(windows=2, window_s=0.3))
    assert len(recorder.counted) == 2
    rates = [steps_per_s(recorder.series, window.value) for window in recorder.counted]
    assert rates == pytest.approx([6.0, 6.0])


def test_what_ends_after_the_last_window_opens_no_other() -> None:
    recorder, end_us = several(STEP_US, 2, TWO)
    before = list(recorder.counted)
    for late in range(1, 4):
        assert recorder.until(0, StepTime(end_us, end_us + late * 1_000_000))
    assert recorder.counted == before


def nodes(*names: str) -> list[Node]:
    """Return workers of these types, as a cluster of them all lists them."""
    groups = {
        name: NodeGroup(role="worker", node_type=name, count=names.count(name)) for name in names
    }
    return [Node(f"n{i}", "worker", i, f"10.0.0.{i}", groups[name]) for i, name in enumerate(names)]


def test_workers_of_each_type_train() -> None:
    up = nodes("a", "a", "b", "b")
    server = NodeGroup(role="server", node_type="s", count=1)
    for counts, expected in (
        ((1,), [0]),
        ((1, 1), [0, 2]),
        ((2, 1), [0, 1, 2]),
        ((2, 2), [0, 1, 2, 3]),
    ):
        groups = (
            NodeGroup(role="worker", node_type=name, count=count)
            for name, count in zip("ab", counts, strict=False)
        )
        scenario = Scenario(
            workload=TrainingWorkload(dnn="small_cnn", image_size=16, batch_size=2),
            strategy=Strategy(workers=sum(counts)),
            nodes=(*groups, server),
        )
        assert [node.index for node in workers_of(scenario, up)] == expected


SECOND = 1_000_000


def steps(*seconds: float) -> list[StepTime]:
    """Back-to-back steps between these times."""
    times = [round(step_s * SECOND) for step_s in seconds]
    return [StepTime(start, end) for start, end in pairwise(times)]


@given(st.floats(0.05, 2.0), st.integers(1, 5), st.floats(0.0, 1.0))
def test_equal_steps_give_their_rate_wherever_the_window_lies(
    step_s: float, workers: int, phase: float
) -> None:
    times = [i * step_s for i in range(41)]
    series = {worker: steps(*times) for worker in range(workers)}
    start = round((5 + phase) * step_s * SECOND)
    window = Window(start, start + round(20.5 * step_s * SECOND))
    expected = workers / step_s
    assert abs(steps_per_s(series, window) - expected) < 0.001 * expected


def test_stationary_is_what_agrees_over_two_whole_blocks() -> None:
    even, rising = {0: steps(*range(21))}, {0: steps(0, 2, 4, 6, 8, 10, *range(11, 16))}
    assert is_stationary(even, 20 * SECOND, block_s=5, tolerance=0.05)
    assert not is_stationary(rising, 15 * SECOND, block_s=5, tolerance=0.05)
    assert not is_stationary({0: even[0][:8]}, 8 * SECOND, block_s=5, tolerance=0.05)
