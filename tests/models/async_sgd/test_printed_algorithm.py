"""The four faults of Algorithm 3.1 as printed: it fails where the simulator does not.

Links carry 10 bytes/s.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.async_sgd.graphs import SPEED_BPS, D, Op, P, U, W, job, options, random_ops, run
from tests.models.async_sgd.oracle.simulator import simulate
from tests.models.async_sgd.printed_algorithm import PrintedAlgorithm


def printed(*ops: Op, workers: int = 1, n: int = 1, mended: str = "") -> PrintedAlgorithm:
    algorithm = PrintedAlgorithm(
        *job(*ops), workers=workers, n=n, speed_Bps=SPEED_BPS, mended=mended
    )
    algorithm.generate_trace()
    return algorithm


@pytest.mark.parametrize("workers", [1, 2])
def test_fault_a_active_downlinks_are_not_raised_when_a_step_starts(workers: int) -> None:
    ops = [Op(D, 10)]
    with pytest.raises(ZeroDivisionError):
        printed(*ops, workers=workers, n=2)
    with pytest.raises(ZeroDivisionError):
        printed(*ops, workers=workers, n=2, mended="bc")

    assert printed(*ops, workers=workers, n=2, mended="a").step_ends_s[0] == [workers, 2 * workers]
    trace = run(*ops, workers=workers, steps=2)
    assert trace.step_ends_s.tolist() == [[workers, 2 * workers]] * workers


def test_fault_b_an_operation_starts_while_another_runs() -> None:
    ops = [Op(D, 10), Op(D, 10), Op(W, 5, after=(0,)), Op(W, 5, after=(1,))]
    starts = {done.operation: done.start_s for done in printed(*ops).trace}
    assert (starts[2], starts[3]) == (1, 2)

    trace = run(*ops, record=True)
    starts = {done.operation: done.start_s for done in trace.intervals}
    assert (starts[2], starts[3]) == (1, 6)


def test_fault_b_a_step_ends_while_a_chunk_runs() -> None:
    ops = [Op(D, 10), Op(W, 1, after=(0,))]
    assert printed(*ops).step_ends_s == [[1, 2]]

    assert run(*ops).step_ends_s.tolist() == [[2]]


def test_fault_c_roots_that_are_no_downlinks_never_start() -> None:
    ops = [Op(D, 10), Op(W, 3), Op(W, 1, after=(0, 1))]
    assert {done.operation for done in printed(*ops).trace} == {0}
    assert {done.operation for done in printed(*ops, mended="ab").trace} == {0}

    assert {done.operation for done in run(*ops, record=True).intervals} == {0, 1, 2}


def test_fault_c_a_step_without_downlinks_cannot_start() -> None:
    with pytest.raises(IndexError):
        printed(Op(W, 1))
    assert run(Op(W, 1)).step_ends_s.tolist() == [[1]]


def test_fault_d_a_worker_runs_one_operation_at_a_time() -> None:
    ops = [Op(D, 10), Op(W, 2, after=(0,)), Op(W, 2, after=(0,)), Op(W, 2, after=(0,))]
    assert printed(*ops, mended="abc").step_ends_s == [[7]]

    assert run(*ops).step_ends_s.tolist() == [[7]]
    for cores, end_s in ((1, 7), (2, 4), (3, 3), (8, 3)):
        trace = run(*ops, inter_op_threads=2, cores=cores)
        assert trace.step_ends_s[0, 0] == pytest.approx(end_s)


@given(
    seed=st.integers(0, 10**6),
    count=st.integers(1, 25),
    workers=st.integers(1, 3),
    steps=st.integers(1, 3),
    window_bytes=st.sampled_from([None, 50.5, 300.5]),
)
def test_the_mended_algorithm_and_the_simulator_agree(
    seed: int, count: int, workers: int, steps: int, window_bytes: float | None
) -> None:
    graph, step = job(*random_ops(seed, count))
    algorithm = PrintedAlgorithm(
        graph,
        step,
        workers=workers,
        n=steps,
        speed_Bps=SPEED_BPS,
        window_bytes=window_bytes,
        mended="abc",
    )
    algorithm.generate_trace()
    trace = simulate(graph, [step], options(workers, steps, window_bytes=window_bytes, record=True))
    np.testing.assert_allclose(trace.step_ends_s, np.array(algorithm.step_ends_s), rtol=1e-9)
    assert len(trace.intervals) == len(algorithm.trace) == trace.events


def test_the_mended_algorithm_covers_every_resource() -> None:
    resources = {op.resource for op in random_ops(seed=1, count=25)}
    assert resources == {D, W, U, P}
