"""The compiled simulator against the readable one: the same chunks in the same order."""

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd import simulator as simulator_module
from models.async_sgd.graph import ProfiledStep, StepGraph
from models.async_sgd.synthetic_trace import Interval, Trace
from models.async_sgd.workers import SimulationOptions, Workers
from tests.models.async_sgd.graphs import Op, job, options, random_ops
from tests.models.async_sgd.oracle import simulator
from tests.models.async_sgd.strategies import any_options, jobs, sharings


def what(interval: Interval) -> tuple[object, ...]:
    return interval[:5]


def assert_same(graph: StepGraph, steps: list[ProfiledStep], chosen: SimulationOptions) -> Trace:
    return assert_same_together([Workers(graph, steps, chosen)])


def assert_same_together(trained: list[Workers]) -> Trace:
    fast, readable = (module.simulate_together(trained) for module in (simulator_module, simulator))
    assert fast.events == readable.events == len(fast.intervals)
    assert list(map(what, fast.intervals)) == list(map(what, readable.intervals))
    for field in ("start_s", "end_s", "size_bytes"):
        actual, expected = (
            np.array([getattr(i, field) for i in trace.intervals]) for trace in (fast, readable)
        )
        np.testing.assert_allclose(actual, expected, rtol=1e-9, atol=0)
    np.testing.assert_allclose(fast.step_starts_s, readable.step_starts_s, rtol=1e-9, atol=0)
    np.testing.assert_allclose(fast.step_ends_s, readable.step_ends_s, rtol=1e-9, atol=0)
    assert_same_unrecorded(trained, fast)
    return fast


def assert_same_unrecorded(trained: list[Workers], recorded: Trace) -> None:
    """Delays that follow one another are one event where nothing is recorded; no bit differs."""
    unrecorded = [group._replace(options=replace(group.options, record=False)) for group in trained]
    trace = simulator_module.simulate_together(unrecorded)
    np.testing.assert_array_equal(trace.step_starts_s, recorded.step_starts_s)
    np.testing.assert_array_equal(trace.step_ends_s, recorded.step_ends_s)
    assert trace.events == recorded.events


@given(st.integers(1, 3), any_options(), st.data())
def test_jobs_in_which_many_events_coincide(
    servers: int, chosen: SimulationOptions, data: st.DataObject
) -> None:
    graph, steps = data.draw(jobs(servers))
    ranks = st.lists(st.integers(-3, 9), min_size=len(graph.names), max_size=len(graph.names))
    enforced = data.draw(st.none() | ranks.map(tuple))
    shared = data.draw(sharings(chosen, servers))
    assert_same(graph, steps, replace(shared, ranks=enforced))


@given(
    st.builds(random_ops, st.integers(0, 10**6), st.integers(1, 60)),
    st.builds(
        options,
        st.integers(1, 9),
        st.just(3),
        window_bytes=st.sampled_from([None, 50.5, 300.5]),
        inter_op_threads=st.integers(1, 2),
        record=st.just(True),
    ),
)
def test_jobs_of_unequal_amounts(ops: list[Op], chosen: SimulationOptions) -> None:
    graph, profiled = job(*ops)
    assert_same(graph, [profiled], chosen)


@given(
    seeds=st.lists(st.integers(0, 10**6), min_size=2, max_size=4),
    counts=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    threads=st.lists(st.integers(1, 2), min_size=4, max_size=4),
)
def test_workers_of_unequal_amounts_that_differ(
    seeds: list[int], counts: list[int], threads: list[int]
) -> None:
    trained = []
    for seed, workers, at_once in zip(seeds, counts, threads, strict=False):
        chosen = options(workers, 1 + seed % 4, inter_op_threads=at_once, window_bytes=90.5)
        trained.append(Workers(*alone(seed), replace(chosen, record=True)))
    assert_same_together(trained)


def alone(seed: int) -> tuple[StepGraph, list[ProfiledStep]]:
    graph, profiled = job(*random_ops(seed, 1 + seed % 40))
    return graph, [profiled]


def test_many_runs_at_once_are_those_one_by_one() -> None:
    graph, profiled = job(*random_ops(5, 40))
    alone = [Workers(graph, [profiled], options(w, 5, seed=w)) for w in range(1, 8)]
    traces = simulator_module.simulate_all([group] for group in alone)
    for group, trace in zip(alone, traces, strict=True):
        assert (trace.step_ends_s == simulator_module.simulate(*group).step_ends_s).all()
