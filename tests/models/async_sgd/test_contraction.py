import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd.graph import Resource
from models.async_sgd.simulator import contract, simulate, transitive_reduction
from tests.models.async_sgd.graphs import D, Op, P, U, W, job, options, random_ops, step

CHAIN = (
    Op(P, 1),
    Op(P, 2, (0,)),
    Op(D, 10, (1,)),
    Op(W, 3, (2,)),
    Op(W, 4, (3,)),
    Op(U, 10, (4,)),
    Op(P, 5, (5,)),
    Op(P, 6, (6,)),
)


@pytest.mark.parametrize(
    ("threads", "resources", "seconds"),
    [(2, [P, D, W, U, P], (3, 0, 7, 0, 11)), (1, [P, D, W, W, U, P], (3, 0, 3, 4, 0, 11))],
)
def test_chains_are_merged_where_nothing_queues(
    threads: int, resources: list[Resource], seconds: tuple[float, ...]
) -> None:
    graph, profiled = job(*CHAIN)
    merged, (merged_step,) = contract(graph, [profiled], threads)
    assert list(merged.resources) == resources
    assert merged.successors == (*((i + 1,) for i in range(len(resources) - 1)), ())
    assert merged_step.seconds == seconds


def test_what_others_wait_for_or_with_stays() -> None:
    fork, profiled = job(Op(W, 1), Op(W, 1, (0,)), Op(U, 5, (0,)))
    assert contract(fork, [profiled], 2)[0] == fork
    join, profiled = job(Op(W, 1), Op(D, 5), Op(W, 1, (0, 1)))
    assert contract(join, [profiled], 2)[0] == join
    servers, profiled = job(Op(P, 1), Op(W, 1, (0,)))
    assert contract(servers, [profiled], 2)[0] == servers


def test_order_and_release_are_those_of_the_first() -> None:
    graph, _ = job(Op(W, 1), Op(W, 1, (0,)), Op(U, 5))
    profiled = step(1.0, 1.0, 0.0, order=(2, 0, 1), release_s=(0.25, 0.0, 0.5))
    _, (merged,) = contract(graph, [profiled], 2)
    assert (merged.order, merged.release_s) == ((1, 0), (0.25, 0.5))


def test_edges_that_others_imply_are_dropped() -> None:
    graph, _ = job(Op(W, 1), Op(W, 1, (0,)), Op(W, 1, (0, 1)), Op(W, 1, (0, 2)))
    assert transitive_reduction(graph).successors == ((1,), (2,), (3,), ())


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 60),
    threads=st.integers(1, 2),
    server_cores=st.sampled_from([None, 1.5]),
)
def test_times_of_merged_steps_are_the_same(
    seed: int, count: int, threads: int, server_cores: float | None
) -> None:
    graph, profiled = job(*random_ops(seed, count))
    merged, merged_steps = contract(graph, [profiled], threads)
    chosen = options(3, 3, inter_op_threads=threads, server_cores=server_cores)
    whole, fewer = simulate(graph, [profiled], chosen), simulate(merged, merged_steps, chosen)
    np.testing.assert_allclose(whole.step_ends_s, fewer.step_ends_s, rtol=1e-9, atol=0)
    assert fewer.events <= whole.events
