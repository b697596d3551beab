from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from profilers.nodes.tf_jobs import StepTime
from profilers.windows import Window, is_stationary, steps_per_s

SECOND = 1_000_000


def steps(*seconds: float) -> list[StepTime]:
    """Back-to-back steps between these times."""
    times = [round(step_s * SECOND) for step_s in seconds]
    return [StepTime(start, end) for start, end in pairwise(times)]


def test_a_step_across_the_edge_counts_by_its_fraction() -> None:
    """Window 1 s to 3 s: half of the first step, the step_s whole, a quarter of the third."""
    series = {0: steps(0, 2, 2.5, 4.5)}
    assert steps_per_s(series, Window(SECOND, 3 * SECOND)) == (0.5 + 1 + 0.25) / 2


def test_all_workers_count_together() -> None:
    series = {0: steps(0, 1, 2, 3, 4), 1: steps(0, 2, 4)}
    assert steps_per_s(series, Window(0, 4 * SECOND)) == 1.5


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


def test_stationary_when_the_last_two_blocks_agree() -> None:
    series = {0: steps(*range(0, 21))}
    assert is_stationary(series, 20 * SECOND, block_s=5, tolerance=0.05)


def test_not_stationary_while_throughput_rises() -> None:
    series = {0: steps(0, 2, 4, 6, 8, 10, *range(11, 16))}
    assert not is_stationary(series, 15 * SECOND, block_s=5, tolerance=0.05)


def test_not_stationary_before_two_blocks_have_passed() -> None:
    series = {0: steps(*range(0, 9))}
    assert not is_stationary(series, 8 * SECOND, block_s=5, tolerance=0.05)
