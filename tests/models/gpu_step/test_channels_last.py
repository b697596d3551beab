"""Factors of kinds where tensors are channels_last."""

import numpy as np
import pytest

from models.gpu_step import channels_last, gpu_time
from models.gpu_step.channels_last import TwoLayouts, in_channels_last
from models.gpu_step.device import devices
from models.gpu_step.gpu_time import Timing
from models.gpu_step.judged_steps import layouts_without_families
from models.gpu_step.operators import Work, work_of
from models.gpu_step.public_rows import call
from models.gpu_step.step import StepWork

IMAGES, KERNELS = (64, 256, 28, 28), (256, 256, 3, 3)


def _works(dtype: str) -> tuple[Work, ...]:
    convolution = call("convolution", [IMAGES, KERNELS], [IMAGES], dtype)
    normalized = call("native_batch_norm", [IMAGES, (256,)], [IMAGES], dtype)
    return tuple(map(work_of, (convolution, normalized, call("relu", [IMAGES], [IMAGES], dtype))))


def _step(calls: tuple[int, ...], dtype: str = "float16") -> StepWork:
    order = np.repeat(np.arange(3), calls)
    return StepWork(_works(dtype), order, ())


def test_factors_are_those_that_made_the_ratios() -> None:
    """Of 100 us each, convolutions take 0.6 times as long, normalizations 0.8 times."""
    us, pairs = np.full(3, 100.0), []
    for calls in ((9, 1, 1), (5, 4, 1), (1, 9, 1), (3, 3, 9)) * 25:
        longer = np.array(calls) @ (0.6, 0.8, 1.0) / sum(calls)
        pairs.append((TwoLayouts("", _step(calls), devices()["rtx3090"], float(longer)), us))
    factors = channels_last.fit(pairs)
    assert factors["convolution"] == pytest.approx(0.6, abs=0.01)
    assert factors["normalization"] == pytest.approx(0.8, abs=0.01)
    assert factors["depthwise"] == pytest.approx(1) and channels_last.fit([]) == {}


def test_they_are_of_half_precision_alone() -> None:
    gpu = devices()["rtx3090"]
    timings = [Timing(work, gpu, 500.0) for work in (*_works("float16"), *_works("float32"))]
    pairs = [TwoLayouts("", _step((5, 3, 2)), gpu, 0.7)]
    times = gpu_time.fit(timings, pairs)
    again = gpu_time.GpuTime.of(times.fields())
    for dtype, is_faster in (("float16", True), ("float32", False)):
        step = _step((5, 3, 2), dtype)
        us, last_us = (again.us(each.works, [gpu])[0] for each in (step, in_channels_last(step)))
        assert (last_us[0] < us[0]) == is_faster and last_us[2] == us[2]


def test_networks_of_a_family_that_is_left_out_tell_nothing() -> None:
    """A family is called as its first networks are: ResNet, and GPT-2 elsewhere gpt2."""
    names = ("resnet50", "resnext50_32x4d", "efficientnet_b0", "gpt2_small")
    layouts = [TwoLayouts(name, _step((1, 1, 1)), devices()["rtx3090"], 0.7) for name in names]
    left = layouts_without_families(layouts, ["ResNet", "GPT-2"])
    assert [each.network for each in left] == ["resnext50_32x4d", "efficientnet_b0"]
    assert layouts_without_families(layouts, []) == layouts
