"""Algorithm 3.1, mended where it cannot run, beside the simulator; links carry 10 bytes/s."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.models.async_sgd.graphs import SPEED_BPS, job, options, random_ops
from tests.models.async_sgd.oracle.simulator import simulate
from tests.models.async_sgd.printed_algorithm import PrintedAlgorithm


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
        graph, step, workers=workers, n=steps, speed_Bps=SPEED_BPS, window_bytes=window_bytes
    )
    algorithm.generate_trace()
    trace = simulate(graph, [step], options(workers, steps, window_bytes=window_bytes, record=True))
    np.testing.assert_allclose(trace.step_ends_s, np.array(algorithm.step_ends_s), rtol=1e-9)
    assert len(trace.intervals) == len(algorithm.trace) == trace.events
