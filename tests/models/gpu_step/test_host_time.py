"""Host time: a launch and a step, from steps that wait for the host."""

import pytest

from models.gpu_step import host_time
from models.gpu_step.host_time import VIEW_SHARE, StepTiming, measured_hosts
from models.gpu_step.operators import Work
from tests.models.gpu_step.public import inventory_tables


def _step(launches: int, views: int, gpu_share: float = 0.2) -> StepTiming:
    step_us = 20_000 + 25 * (launches + VIEW_SHARE * views)
    return StepTiming(launches, views, step_us, gpu_share * step_us)


def test_finds_what_made_the_steps() -> None:
    fitted = host_time.fit([_step(500, 300), _step(1000, 900), _step(4000, 3000)])
    assert fitted.launch_us == pytest.approx(25, rel=1e-3)
    assert fitted.step_us == pytest.approx(20_000, rel=1e-3)
    view, launch = Work("none", "view", "float32", 0, 0), Work("matmul", "mm", "float32", 0, 0)
    assert fitted.issue_us(launch) == fitted.launch_us
    assert fitted.issue_us(view) == VIEW_SHARE * fitted.launch_us
    assert fitted.once_us(100) == fitted.once_us(0) == fitted.step_us


def test_a_step_that_the_gpu_binds_says_that_the_host_takes_no_longer() -> None:
    steps = [_step(500, 300), _step(1000, 900), _step(4000, 3000)]
    large, small = StepTiming(500, 300, 10e6, 9.9e6), StepTiming(2000, 0, 20_000, 19_000)
    fitted = host_time.fit([*steps, large])
    assert fitted.launch_us == pytest.approx(25, rel=1e-3)
    assert host_time.fit([*steps, *[small] * 4]).step_us < fitted.step_us


def test_one_noisy_step_moves_little() -> None:
    steps = [_step(launches, launches // 2) for launches in range(500, 4000, 250)]
    noisy = StepTiming(1000, 500, 200_000, 1000)
    assert host_time.fit([*steps, noisy]).launch_us == pytest.approx(25, rel=0.05)


def test_a_measured_host_has_a_time_for_each_kind() -> None:
    tables = inventory_tables("gpu.l4", view=1e-6, product=9e-6, elementwise=5e-6)
    (host,) = measured_hosts(tables["run"], tables["sample"]).values()
    issued = {
        ("matmul", "mm"): 9,
        ("convolution_backward", "convolution_backward"): 9,
        ("normalization_backward", "layer_norm_backward"): 11,
        ("softmax", "softmax"): 5,
        ("optimizer", "_foreach_add_"): 5,
        ("none", "view"): 1,
        ("none", "t"): 0,
    }
    for (kind, name), us in issued.items():
        assert host.issue_us(Work(kind, name, "float32", 0, 0)) == pytest.approx(us)  # type: ignore[arg-type]
    assert host.once_us(10) == pytest.approx(100 + 10 * 2)
