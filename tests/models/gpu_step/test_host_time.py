"""Host time: a launch and a step, from steps that wait for the host."""

import pytest

from models.gpu_step import host_time
from models.gpu_step.host_time import VIEW_SHARE, StepTiming


def _step(launches: int, views: int, gpu_share: float = 0.2) -> StepTiming:
    step_us = 20_000 + 25 * (launches + VIEW_SHARE * views)
    return StepTiming(launches, views, step_us, gpu_share * step_us)


def test_finds_what_made_the_steps() -> None:
    fitted = host_time.fit([_step(500, 300), _step(1000, 900), _step(4000, 3000)])
    assert fitted.launch_us == pytest.approx(25)
    assert fitted.step_us == pytest.approx(20_000)
    assert fitted.us(100, 10) == pytest.approx(20_000 + 25 * (100 + VIEW_SHARE * 10))


def test_steps_that_the_gpu_binds_say_nothing() -> None:
    bound = StepTiming(500, 300, 10e6, 9.9e6)
    steps = [_step(500, 300), _step(1000, 900), _step(4000, 3000)]
    assert host_time.fit([*steps, bound]) == host_time.fit(steps)


def test_one_noisy_step_moves_little() -> None:
    steps = [_step(launches, launches // 2) for launches in range(500, 4000, 250)]
    noisy = StepTiming(1000, 500, 200_000, 1000)
    assert host_time.fit([*steps, noisy]).launch_us == pytest.approx(25, rel=0.05)


def test_needs_two_steps() -> None:
    with pytest.raises(ValueError, match="only 1 of 1 steps wait for the host; need 2"):
        host_time.fit([_step(500, 300)])
