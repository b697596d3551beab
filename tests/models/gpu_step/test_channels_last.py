"""Factors of kinds where tensors are channels_last."""

import numpy as np
import pytest
from pydantic import TypeAdapter

from models.gpu_step import channels_last, gpu_time
from models.gpu_step.channels_last import TwoLayouts, in_channels_last
from models.gpu_step.device import devices
from models.gpu_step.gpu_time import Timing
from models.gpu_step.judged_steps import layouts_without_families
from models.gpu_step.operators import Work, work_of
from models.gpu_step.public_rows import call
from models.gpu_step.step import StepWork, step_work
from networks.gpu_steps import GpuStep

IMAGES, KERNELS = (64, 256, 28, 28), (256, 256, 1, 1)


def _works(dtype: str) -> tuple[Work, ...]:
    convolution = call("convolution", [IMAGES, KERNELS], [IMAGES], dtype)
    normalized = call("native_batch_norm", [IMAGES, (256,)], [IMAGES], dtype)
    return tuple(map(work_of, (convolution, normalized, call("relu", [IMAGES], [IMAGES], dtype))))


def _step(calls: tuple[int, ...], dtype: str = "float16") -> StepWork:
    order = np.repeat(np.arange(3), calls)
    return StepWork(_works(dtype), order, ())


def test_what_is_saved_is_what_made_the_ratios() -> None:
    """Convolutions save 1.5 times of moving their bytes, normalizations a fifth of 300 us."""
    gpu, us, pairs = devices()["rtx3090"], np.full(3, 300.0), []
    moved_us = 1e6 * _works("float16")[0].bytes / gpu.bandwidth
    for calls in ((9, 1, 1), (5, 4, 1), (1, 9, 1), (3, 3, 9)) * 25:
        saved_us = np.array(calls) @ (1.5 * moved_us, 60.0, 0.0)
        ratio = float(1 - saved_us / 300 / sum(calls))
        pairs.append((TwoLayouts("", _step(calls), gpu, ratio), us))
    assert channels_last.fit(pairs) == pytest.approx((1.5, 0.2), abs=0.02)
    # Where nobody measured, what is turned round is read and written once.
    assert channels_last.fit([]) == (2.0, 0.0)


def test_depthwise_convolutions_of_permuted_tensors_load_operands_anew() -> None:
    """2 x 49 operations an element, 4 bytes each; in half precision, or not permuted: as before."""
    images, kernels, gpu = (64, 192, 56, 56), (192, 1, 7, 7), devices()["h100"]
    turned = call("permute", [(64, 56, 56, 192)], [images])
    for dtype, before, times in (
        ("float32", turned, 1.0),
        ("float32", call("permute", [images], [(64, 56, 56, 192)]), 0.0),
        ("float16", turned, 0.0),
    ):
        backward = call("convolution_backward", [images, images, kernels], [images, kernels], dtype)
        forward = call("convolution", [images, kernels], [images], dtype)
        step = GpuStep((before, forward, backward), (0, 1, 2), (), 0, 0, 0, (0,))
        works = step_work(step, None).works
        us = gpu_time.GpuTime({}).us(works, [gpu])[0]
        loaded_us = 1e6 * 2 * 49 * 64 * 192 * 56**2 * 4 / gpu.bandwidth
        plain_us = gpu_time.roofline_us(works, [gpu])[0]
        expected_us = np.maximum(plain_us, times * loaded_us * np.array([0, 1, 2]))
        assert us == pytest.approx(expected_us)


def test_they_are_of_half_precision_alone() -> None:
    gpu = devices()["rtx3090"]
    timings = [Timing(work, gpu, 500.0) for work in (*_works("float16"), *_works("float32"))]
    pairs = [TwoLayouts("", _step((5, 3, 2)), gpu, 0.7)]
    times = gpu_time.fit(timings, pairs)
    in_json = TypeAdapter(gpu_time.GpuTime)
    again = in_json.validate_json(in_json.dump_json(times))
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
