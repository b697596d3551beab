"""What must hold of any job: random graphs with ties, work of no duration, several threads."""

from collections import Counter, defaultdict
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.synthetic_trace import Interval, Trace
from models.async_sgd.workers import SimulationOptions
from tests.models.async_sgd.graphs import SPEED_BPS, D, Op, P, U, W, job, options, step
from tests.models.async_sgd.oracle.simulator import simulate
from tests.models.async_sgd.strategies import any_options, jobs

TOLERANCE_S = 1e-6


def per_step(trace: Trace) -> dict[tuple[int, int], list[Interval]]:
    steps = defaultdict(list)
    for interval in trace.intervals:
        steps[interval.worker, interval.step].append(interval)
    return steps


def most_at_once(intervals: Iterable[Interval]) -> int:
    """Return how many intervals that take time overlap at most."""
    changes = sorted(
        change
        for interval in intervals
        if interval.end_s - interval.start_s > TOLERANCE_S
        for change in (
            (interval.start_s + TOLERANCE_S / 4, 1),
            (interval.end_s - TOLERANCE_S / 4, -1),
        )
    )
    running, most = 0, 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


def covered_s(intervals: Iterable[Interval]) -> float:
    """Return the length of the union of intervals."""
    total, until = 0.0, 0.0
    for interval in sorted(intervals, key=lambda interval: interval.start_s):
        total += max(0.0, interval.end_s - max(until, interval.start_s))
        until = max(until, interval.end_s)
    return total


@given(jobs(), any_options())
def test_operations_run_whole_once_a_step_in_order_within_what_links_and_threads_can(
    made: tuple[StepGraph, list[ProfiledStep]], chosen: SimulationOptions
) -> None:
    graph, steps = made
    trace = simulate(graph, steps, chosen)
    check_order(graph, trace, chosen)
    used = defaultdict(list)
    for interval in trace.intervals:
        used[interval.worker, interval.resource].append(interval)
    for (_, resource), intervals in used.items():
        if resource.is_link or (resource is W and chosen.inter_op_threads == 1):
            assert most_at_once(intervals) <= 1
    # A link in use carries exactly its bandwidth.
    for resource in (D, U):
        sent = zip(graph.sizes_bytes, graph.resources, strict=True)
        per_step_bytes = sum(size for size, used in sent if used is resource)
        carried_s = covered_s(i for i in trace.intervals if i.resource is resource)
        all_bytes = per_step_bytes * chosen.workers * chosen.steps
        assert carried_s * chosen.server_Bps(resource) == pytest.approx(all_bytes)
    # It is no faster than computation allows.
    computed = [i for i, resource in enumerate(graph.resources) if resource is W]
    cores = 1.0 if chosen.inter_op_threads == 1 else chosen.cores
    least_s = min(sum(step.seconds[i] for i in computed) for step in steps) / cores
    assert trace.step_ends_s.max() + TOLERANCE_S >= chosen.steps * least_s


def check_order(graph: StepGraph, trace: Trace, chosen: SimulationOptions) -> None:
    runs = per_step(trace)
    assert set(runs) == {(w, s) for w in range(chosen.workers) for s in range(chosen.steps)}
    for (worker, number), intervals in runs.items():
        started: dict[int, float] = {}
        ended: dict[int, float] = {}
        sent: Counter[int] = Counter()
        for interval in intervals:
            started[interval.operation] = min(
                interval.start_s, started.get(interval.operation, interval.start_s)
            )
            ended[interval.operation] = max(interval.end_s, ended.get(interval.operation, 0.0))
            sent[interval.operation] += int(interval.size_bytes)
        chunks = Counter(interval.operation for interval in intervals)
        for operation, resource in enumerate(graph.resources):
            assert chunks[operation] in ((1, 2) if resource.is_link else (1,))
            assert sent[operation] == graph.sizes_bytes[operation]
            for target in graph.successors[operation]:
                assert started[target] >= ended[operation] - TOLERANCE_S
        assert min(started.values()) >= trace.step_starts_s[worker, number]
        assert max(ended.values()) == pytest.approx(trace.step_ends_s[worker, number])


@given(jobs(), any_options())
def test_a_worker_does_no_more_than_its_cores(
    made: tuple[StepGraph, list[ProfiledStep]], chosen: SimulationOptions
) -> None:
    graph, steps = made
    trace = simulate(graph, steps[:1], chosen)
    cores = 1.0 if chosen.inter_op_threads == 1 else chosen.cores
    for intervals in per_step(trace).values():
        computed = [i for i in intervals if i.resource is W]
        work_s = sum(steps[0].seconds[i.operation] for i in computed)
        assert work_s <= covered_s(computed) * cores + TOLERANCE_S
        for interval in intervals:
            assert (
                interval.end_s - interval.start_s
                >= steps[0].seconds[interval.operation] - TOLERANCE_S
            )


@given(
    st.lists(st.tuples(st.sampled_from([D, W, U, P]), st.integers(0, 40)), min_size=1, max_size=8),
    st.integers(1, 4),
    st.integers(1, 4),
)
def test_more_bandwidth_never_slows_a_chain(
    parts: list[tuple[Resource, int]], workers: int, steps: int
) -> None:
    """Proved where it is a theorem: a chain, and bandwidth multiplied by k >= W.

    Then each flow gets at least kB/W >= B, the most it could get before, and a chain has nothing
    to reorder, so no worker is ever behind where it was. In general graphs a transfer that ends
    earlier can let a long operation take the thread first (Graham's anomalies), and with k < W a
    worker that is ahead can take bandwidth from one that needs it more.
    """
    graph, profiled = job(*(Op(*part, (i - 1,) if i else ()) for i, part in enumerate(parts)))
    profiles = [profiled, step(*(2 * seconds for seconds in profiled.seconds))]
    slow = simulate(graph, profiles, options(workers, steps))
    more_Bps = SPEED_BPS * max(2, workers)
    faster = options(workers, steps, downlink_Bps=more_Bps, uplink_Bps=more_Bps)
    fast = simulate(graph, profiles, faster)
    assert (fast.step_ends_s <= slow.step_ends_s + TOLERANCE_S).all()
