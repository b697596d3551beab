"""The step as two queues."""

import numpy as np
import pytest

from models.gpu_step.queues import simulate, slowest_s, varied_us

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]


def _all(count: int, us: float) -> Vector:
    return np.full(count, us)


@pytest.mark.parametrize(("gpu_us", "step_us", "binds"), [(100, 2000, "gpu"), (1, 200, "host")])
def test_the_slower_of_both_binds(gpu_us: float, step_us: float, binds: str) -> None:
    step = simulate(_all(20, 10), _all(20, gpu_us))
    assert step.step_us == pytest.approx(step_us) and step.binds == binds
    assert step.idle_share == pytest.approx(0.9)


def test_a_value_that_is_asked_for_stops_the_host() -> None:
    """The host issues the second half (100 us) only when the GPU has done the first (1000 us)."""
    host_us, gpu_us = _all(20, 10), np.concatenate([_all(10, 100), _all(10, 1)])
    step = simulate(host_us, gpu_us, waits=[9])
    assert max(step.host_us, step.gpu_us) == pytest.approx(1010)
    # In a loop the first kernel is issued 10 us after the last step's second half was, when the GPU
    # has a microsecond of that left at most: 10 + 1000 for the first half, 100 for the second.
    assert step.step_us == pytest.approx(1110)
    assert simulate(host_us, gpu_us).step_us == pytest.approx(1010)


@pytest.mark.parametrize("seed", range(5))
def test_steps_are_those_of_a_plain_loop(seed: int) -> None:
    draw = np.random.default_rng(seed)
    host_us, gpu_us = draw.exponential(10, 200), draw.exponential(10, 200)
    gpu_us[draw.random(200) < 0.3] = 0.0
    waits = sorted(draw.choice(200, 3, replace=False).tolist())
    host = gpu = before = end = 0.0
    for _ in range(3):
        for place in range(200):
            host += host_us[place]
            if gpu_us[place]:
                gpu = max(host, gpu) + gpu_us[place]
            if place in waits:
                host = max(host, gpu)
        before, end = end, max(host, gpu)
    assert simulate(host_us, gpu_us, waits).step_us == pytest.approx(end - before)


def test_what_only_the_host_does_takes_no_gpu_time() -> None:
    step = simulate(np.array([50.0, 1.0]), np.array([0.0, 5.0]))
    assert step.step_us == pytest.approx(51)


def test_a_host_that_varies_makes_steps_longer_where_both_take_alike_long() -> None:
    host_us, gpu_us = np.full(2, 100.0), np.array([100.0, 90.0])
    draws = np.random.default_rng(1).normal(100.0, 10.0, 200_000)
    longer = [np.maximum(draws, gpu).mean() - 100.0 for gpu in gpu_us]
    assert varied_us(host_us, gpu_us) == pytest.approx(longer, abs=0.1)
    assert varied_us(host_us, np.full(2, 1000.0)) == pytest.approx(0.0)


@pytest.mark.parametrize("hosts", [1, 2, 8, 16])
def test_all_wait_for_the_slowest_of_hosts_that_vary(hosts: int) -> None:
    draws = np.random.default_rng(1).normal(1.0, 0.1, (50_000, hosts))
    assert slowest_s(1.0, hosts) == pytest.approx(draws.max(axis=1).mean(), abs=0.004)
