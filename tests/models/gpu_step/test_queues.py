"""The step as two queues."""

import pytest

from models.gpu_step.queues import DEPTH, Launch, larger_of_both_us, simulate


def test_long_kernels_bind_the_gpu() -> None:
    step = simulate([Launch(10, 100)] * 20)
    assert step.step_us == pytest.approx(2000)
    assert step.binds == "gpu"
    assert step.idle_share == pytest.approx(0.9)


def test_short_kernels_wait_for_the_host() -> None:
    step = simulate([Launch(10, 1)] * 20)
    assert step.step_us == pytest.approx(200)
    assert step.binds == "host"


def test_a_value_that_is_asked_for_stops_the_host() -> None:
    """The host issues the second half (100 us) only when the GPU has done the first (1000 us)."""
    first = [Launch(10, 100)] * 9 + [Launch(10, 100, waits=True)]
    second = [Launch(10, 1)] * 10
    launches = first + second
    assert larger_of_both_us(launches) == pytest.approx(1010)
    # The first kernel starts after 10 us; the host waits until 1,010 us, and issues for 100 more.
    assert simulate(launches, steps=1).step_us == pytest.approx(1111)


def test_the_host_runs_ahead_only_as_far_as_the_queue_is_deep() -> None:
    launches = [Launch(1, 10)] * (3 * DEPTH)
    assert simulate(launches).step_us == pytest.approx(30 * DEPTH)


def test_what_only_the_host_does_takes_no_gpu_time() -> None:
    step = simulate([Launch(50, 0, kernels=0), Launch(1, 5)])
    assert step.step_us == pytest.approx(51)


def test_nothing_to_launch() -> None:
    with pytest.raises(ValueError, match="without operators"):
        simulate([])
