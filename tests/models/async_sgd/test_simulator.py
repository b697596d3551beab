"""Closed forms and hand-computed cases. Links carry 10 bytes/s."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.graph import ProfiledStep, StepGraph
from models.async_sgd.simulator import simulate_together
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import SimulationOptions, Workers
from tests.models.async_sgd.graphs import D, Op, P, U, W, job, options, run, step
from tests.models.async_sgd.oracle import simulator
from tests.models.async_sgd.oracle.simulator import simulate
from tests.models.async_sgd.strategies import any_options, jobs
from warehouse.records import BadInput

CHAIN = (Op(D, 20), Op(W, 3, after=(0,)), Op(U, 10, after=(1,)), Op(P, 0.5, after=(2,)))


def test_one_worker_on_a_chain_takes_the_sum() -> None:
    trace = run(*CHAIN, steps=3)
    assert trace.step_ends_s.tolist() == [[6.5, 13.0, 19.5]]
    assert trace.step_starts_s.tolist() == [[0.0, 6.5, 13.0]]
    assert trace.events == 12


def test_pure_computation_scales_linearly_and_the_client_pauses_between_steps() -> None:
    trace = run(Op(W, 2), Op(P, 1, after=(0,)), workers=8, steps=3, client_gap_s=(0.5,))
    assert trace.step_starts_s.tolist() == [[0.0, 3.5, 7.0]] * 8
    assert trace.step_ends_s.tolist() == [[3.0, 6.5, 10.0]] * 8


def test_uneven_sharing_breaks_a_lock_step() -> None:
    """Two workers that start together: equal shares keep them together, random ones do not."""
    equal = run(Op(D, 20), Op(W, 3, after=(0,)), workers=2, steps=20)
    assert equal.step_starts_s[0].tolist() == equal.step_starts_s[1].tolist()
    uneven = run(Op(D, 20), Op(W, 3, after=(0,)), workers=2, steps=20, downlink_spread=0.3)
    assert abs(uneven.step_starts_s[0] - uneven.step_starts_s[1])[1:].min() > 0
    assert uneven.step_ends_s[:, -1].max() < equal.step_ends_s[:, -1].max()


def test_workers_that_give_way_to_the_first_get_out_of_each_others_way() -> None:
    """Down 2 s, 3 s of work: two workers need 7 s in step, and 5 s out of it.

    The second starts with the first, so it gets a quarter until the first is done.
    """
    trace = run(Op(D, 20), Op(W, 3, after=(0,)), workers=2, steps=20, newcomer_weight=1 / 3)
    lengths = trace.step_ends_s - trace.step_starts_s
    np.testing.assert_allclose(lengths[:, -1], 5.0)
    assert lengths[1, 0] == pytest.approx(7.0)


def test_two_workers_share_a_link() -> None:
    """A step computes 1 s or 2 s, then downloads 20 bytes.

    Unequal: the first has 10 bytes by 2 s, shares until 4 s, and the second, with 10 bytes by
    then, needs until 5 s. Equal: 20 bytes at half speed take 4 s.
    """
    graph, fast = job(Op(W, 1), Op(D, 20, after=(0,)))
    slow = step(2.0, 0.0)
    ends = {
        tuple(simulate(graph, [fast, slow], options(2, 1, seed=seed)).step_ends_s[:, 0])
        for seed in range(50)
    }
    assert ends == {(4.0, 5.0), (5.0, 4.0), (5.0, 5.0), (6.0, 6.0)}


def test_flow_control_delays_a_large_tensor() -> None:
    """Whole: 0 ends at 5 s, 1 at 6 s. WIN = 20: 0 sends 2 s, 1 sends 1 s, 0 the rest."""
    ops = [Op(D, 50), Op(D, 10), Op(W, 0.25, after=(1,))]
    for window_bytes, expected in ((None, [5.0, 6.0, 6.25]), (20, [6.0, 3.0, 3.25])):
        trace = run(*ops, window_bytes=window_bytes, record=True)
        ends = [max(i.end_s for i in trace.intervals if i.operation == op) for op in range(3)]
        assert ends == expected


def test_an_enforced_order_of_transfers() -> None:
    """The first is alone when it starts; of those that wait for it, the smallest rank goes."""
    ops = [Op(D, 10), Op(D, 10), Op(D, 20), Op(D, 30)]
    trace = run(*ops, ranks=(3, 2, 1, 0), record=True)
    ends = [(i.operation, i.end_s) for i in trace.intervals]
    assert ends == [(0, 1.0), (3, 4.0), (2, 6.0), (1, 7.0)]


def test_waiting_computations_start_in_the_order_of_the_profile() -> None:
    """Both wait behind the first; the profile started the last one before the middle one."""
    graph, _ = job(Op(W, 1), Op(W, 1), Op(W, 1))
    profiled = step(1.0, 1.0, 1.0, order=(0, 2, 1))
    trace = simulate(graph, [profiled], options(record=True))
    assert [i.operation for i in trace.intervals] == [0, 2, 1]


def test_roots_wait_for_their_release() -> None:
    graph, _ = job(Op(W, 1), Op(D, 10), Op(W, 1, after=(1,)))
    profiled = step(1.0, 0.0, 1.0, release_s=(0.5, 2.0, 0.0))
    trace = simulate(graph, [profiled], options(steps=2, record=True))
    spans = [(i.operation, i.start_s, i.end_s) for i in trace.intervals[:3]]
    assert spans == [(0, 0.5, 1.5), (1, 2.0, 3.0), (2, 3.0, 4.0)]
    assert trace.step_ends_s.tolist() == [[4.0, 8.0]]


def test_a_worker_with_several_threads_shares_its_cores() -> None:
    """On 1.5 cores: both at 3/4 speed until 0 has its 3 s at 4 s; 1 has 3 s of 5 then."""
    trace = run(Op(W, 3), Op(W, 5), inter_op_threads=2, cores=1.5, record=True)
    assert [(i.operation, i.end_s) for i in trace.intervals] == [(0, 4.0), (1, 6.0)]


def test_servers_have_links_of_their_own() -> None:
    graph, profiled = job(Op(D, 20), Op(D, 20))
    apart = StepGraph(graph.names, graph.resources, (0, 1), graph.sizes_bytes, graph.successors)
    ends = [simulate(g, [profiled], options(workers=2)).step_ends_s[0, 0] for g in (graph, apart)]
    assert ends == [8.0, 4.0]


def test_steps_are_sampled_evenly_and_with_replacement() -> None:
    graph, profiled = job(Op(W, 1))
    steps = [profiled, step(2.0)]
    trace = simulate(graph, steps, options(workers=2, steps=500))
    lengths = trace.step_ends_s - trace.step_starts_s
    assert 1.4 < lengths.mean() < 1.6
    assert (lengths[0] != lengths[1]).any()


def test_a_cycle_is_refused() -> None:
    with pytest.raises(BadInput, match="expected no cycle, but 'b'"):
        StepGraph(("a", "b", "c"), (W, W, W), (0, 0, 0), (0, 0, 0), ((1,), (2,), (1,)))


def workers(*ops: Op, count: int = 1, steps: int = 1, **changes: object) -> Workers:
    """Return workers whose only profiled step is of these operations."""
    graph, profiled = job(*ops)
    return Workers(graph, [profiled], options(count, steps, record=True, **changes))


def simulate_groups(*groups: Workers) -> Trace:
    return simulator.simulate_together(groups)


def test_each_computes_for_as_long_as_it_takes_itself() -> None:
    trace = simulate_groups(workers(Op(W, 1), steps=3), workers(Op(W, 3), Op(P, 1, (0,)), count=2))
    assert trace.step_ends_s[0].tolist() == [1.0, 2.0, 3.0]
    assert trace.step_ends_s[1:, 0].tolist() == [4.0, 4.0]
    assert np.isnan(trace.step_ends_s[1:, 1:]).all()
    assert trace.events == len(trace.intervals) == 3 + 2 * 2


def test_cores_threads_gaps_and_orders_are_a_worker_s_own() -> None:
    ops = (Op(W, 2), Op(W, 2))
    trace = simulate_groups(
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
