"""Workers that differ train together: each does its own work, all share the servers' links."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.simulator import simulate_together
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import SimulationOptions, Workers, chances, stations_of
from tests.models.async_sgd.graphs import D, Op, P, U, W, job, options, step
from tests.models.async_sgd.oracle import simulator
from tests.models.async_sgd.strategies import any_options, groups, jobs
from warehouse.records import BadInput


def workers(*ops: Op, count: int = 1, steps: int = 1, **changes: object) -> Workers:
    """Return workers whose only profiled step is of these operations."""
    graph, profiled = job(*ops)
    return Workers(graph, [profiled], options(count, steps, record=True, **changes))


def simulate(*groups: Workers) -> Trace:
    return simulator.simulate_together(groups)


def test_each_computes_for_as_long_as_it_takes_itself() -> None:
    trace = simulate(workers(Op(W, 1), steps=3), workers(Op(W, 3), Op(P, 1, (0,)), count=2))
    assert trace.step_ends_s[0].tolist() == [1.0, 2.0, 3.0]
    assert trace.step_ends_s[1:, 0].tolist() == [4.0, 4.0]
    assert np.isnan(trace.step_ends_s[1:, 1:]).all()
    assert trace.events == len(trace.intervals) == 3 + 2 * 2


def test_all_share_the_servers_links() -> None:
    """10 bytes/s: both at 5 until the 20 bytes are sent after 4 s, then 10 for the 20 left."""
    trace = simulate(workers(Op(D, 20)), workers(Op(W, 0), Op(D, 40, (0,))))
    assert trace.step_ends_s[:, 0].tolist() == [4.0, 6.0]


def test_servers_that_only_some_use() -> None:
    """The second server's link is the second worker's alone."""
    one = workers(Op(D, 20))
    graph = replace(one.graph, servers=(1,))
    trace = simulate(one, one._replace(graph=graph))
    assert trace.step_ends_s[:, 0].tolist() == [2.0, 2.0]
    assert [i.server for i in trace.intervals] == [0, 1]


def test_cores_threads_gaps_and_orders_are_a_worker_s_own() -> None:
    ops = (Op(W, 2), Op(W, 2))
    trace = simulate(
        workers(*ops, steps=2, inter_op_threads=2, cores=2.0, client_gap_s=(1.0,)),
        workers(*ops, inter_op_threads=2, cores=1.0),
        workers(*ops),
        workers(Op(D, 10), Op(D, 30), ranks=(0, 1)),
        workers(Op(D, 10), Op(D, 30), Op(D, 5), ranks=(2, 1, 0)),
    )
    assert trace.step_ends_s[0].tolist() == [2.0, 5.0]
    assert trace.step_ends_s[1:3, 0].tolist() == [4.0, 4.0]
    served = [[i.operation for i in trace.intervals if i.worker == worker] for worker in (3, 4)]
    assert served == [[0, 1], [0, 2, 1]]


def test_links_may_be_a_worker_s_own() -> None:
    """The slow one takes 2 of 10; the other has 8."""
    slow, fast = (
        workers(Op(U, 16), sharing="max_min", worker_uplink_Bps=speed) for speed in (2.0, 10.0)
    )
    assert simulate(slow, fast).step_ends_s[:, 0].tolist() == [8.0, 2.0]


@given(jobs(2), any_options(), st.data())
def test_like_workers_in_two_groups_are_as_in_one(
    made: tuple[StepGraph, list[ProfiledStep]], chosen: SimulationOptions, data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, 3))
    whole = Workers(*made, replace(chosen, workers=first + chosen.workers))
    split = [
        whole._replace(options=replace(chosen, workers=count)) for count in (first, chosen.workers)
    ]
    together, apart = simulate_together([whole]), simulate_together(split)
    assert together.intervals == apart.intervals
    assert (together.step_ends_s == apart.step_ends_s).all()


@given(groups())
def test_each_worker_runs_its_own_operations_in_every_step(trained: list[Workers]) -> None:
    trace = simulate_together(trained)
    number = 0
    for graph, _, chosen in trained:
        for _ in range(chosen.workers):
            mine = {(i.step, i.operation) for i in trace.intervals if i.worker == number}
            every = {(s, i) for s in range(chosen.steps) for i in range(len(graph.names))}
            assert mine == every
            assert np.isnan(trace.step_ends_s[number]).sum() == (
                trace.step_ends_s.shape[1] - chosen.steps
            )
            number += 1
    assert number == len(trace.step_ends_s)


@given(groups())
def test_links_carry_no_more_than_they_can(trained: list[Workers]) -> None:
    trace = simulate_together(trained)
    ended_s = float(np.nanmax(trace.step_ends_s))
    for resource, server in stations_of(trained):
        if resource.is_link:
            total = sum(
                group.options.workers * group.options.steps * _bytes(group.graph, resource, server)
                for group in trained
            )
            speed_Bps = trained[0].options.server_Bps(resource, server)
            assert total <= ended_s * speed_Bps * (1 + 1e-9)


def _bytes(graph: StepGraph, resource: Resource, server: int) -> int:
    rows = zip(graph.resources, graph.servers, graph.sizes_bytes, strict=True)
    return sum(size for used, at, size in rows if (used, at) == (resource, server))


def test_chance_is_drawn_for_each_group_s_steps() -> None:
    graph, _ = job(Op(W, 1))
    few, many = (
        Workers(graph, [step(1.0)] * profiled, options(2, 50, seed=3)) for profiled in (2, 20)
    )
    sampled = chances([few, many]).sampled
    assert sampled[:2].max() == 1
    assert sampled[2:].max() > 10
    assert (sampled[:2] == chances([few]).sampled).all()


def test_groups_that_do_not_fit_each_other() -> None:
    with pytest.raises(BadInput, match="expected workers, found none"):
        simulate()
    with pytest.raises(BadInput, match=r"need one downlink_Bps, found 10\.0 and 5\.0"):
        simulate(workers(Op(W, 1)), workers(Op(W, 1), downlink_Bps=5.0))
    with pytest.raises(BadInput, match=r"need one worker_uplink_Bps, found inf and 5\.0"):
        simulate(workers(Op(W, 1)), workers(Op(W, 1), worker_uplink_Bps=5.0))
    with pytest.raises(BadInput, match="expected 1 ranks, found 2"):
        simulate(workers(Op(W, 1)), workers(Op(W, 1), ranks=(0, 1)))
    one = workers(Op(D, 1), sharing="max_min", downlink_Bps=(1.0,), uplink_Bps=(1.0,))
    with pytest.raises(BadInput, match="expected 2 of downlink_Bps, one per server, found 1"):
        simulate(one, one._replace(graph=replace(one.graph, servers=(1,))))
