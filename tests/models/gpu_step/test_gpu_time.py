"""Regressions of GPU time: they find what made up devices do, and leave out what is left out."""

import random
from dataclasses import replace
from math import ceil

import pytest

from models.gpu_step import gpu_time
from models.gpu_step.columns import Calls
from models.gpu_step.device import Device, boards, device_of_node, devices
from models.gpu_step.gpu_time import GpuTime, Timing
from models.gpu_step.operators import Work, work_of
from models.gpu_step.public_rows import call
from models.gpu_step.step import step_work
from networks.gpu_steps import GpuStep, Operator, Tensor

H100 = devices()["h100"]


def _product(rows: int, inner: int, columns: int, dtype: str = "float32") -> Work:
    left, right = Tensor((rows, inner), dtype), Tensor((inner, columns), dtype)
    return work_of(Operator("mm", (left, right), (Tensor((rows, columns), dtype),)))


def _sum_of(numbers: int) -> Work:
    given = Tensor((numbers,), "float32")
    return work_of(Operator("add", (given, given), (given,)))


def _made_up(device: Device, efficiency: float, seed: int) -> list[Timing]:
    """Products at a share of the peak, sums at a share of the bandwidth."""
    draw = random.Random(seed)
    sizes = [256, 512, 768, 1024, 2048, 3072, 4096]
    sides = [draw.choices(sizes, k=3) for _ in range(60)]
    works = [_product(rows, inner, columns) for rows, inner, columns in sides]
    works += [_sum_of(draw.choice(sizes) * draw.choice(sizes)) for _ in range(60)]
    plain = gpu_time.roofline_us(works, [device])[0]
    return [Timing(work, device, us / efficiency) for work, us in zip(works, plain, strict=True)]


def _us(fitted: GpuTime, work: Work, device: Device = H100) -> float:
    return float(fitted.us([work], [device])[0, 0])


def _roofline(work: Work, device: Device = H100) -> float:
    return float(gpu_time.roofline_us([work], [device])[0, 0])


def _tiled_us(works: list[Work], device: Device) -> list[float]:
    """Launching, moving, and whole tiles of 128 by 128 in whole waves, at the peak."""
    times_us = []
    for work in works:
        waves = ceil(work.rows / 128) * ceil(work.columns / 128) / device.multiprocessors
        peak, _ = device.peak_of(work)
        times_us.append(
            1.0
            + 1e6 * work.bytes / device.bandwidth
            + 1e6 * work.flops / peak * ceil(waves) / waves
        )
    return times_us


def test_products_that_wait_for_each_other_take_as_long_as_so_many() -> None:
    fitted = gpu_time.fit(_made_up(H100, 0.5, seed=1))
    single = _product(64, 256, 512)
    several = replace(single, repeats=300)
    assert _us(fitted, several) == pytest.approx(300 * _us(fitted, single))
    assert _roofline(several) == pytest.approx(300 * _roofline(single))


def test_a_product_at_half_the_peak() -> None:
    fitted = gpu_time.fit(_made_up(H100, 0.5, seed=1))
    work = _product(2048, 1024, 1024)
    expected_us = 2 * 2048 * 1024 * 1024 / 66.9e12 * 1e6 / 0.5
    assert _us(fitted, work) == pytest.approx(expected_us, rel=0.1)


def test_a_device_that_was_not_timed_follows_its_data_sheet() -> None:
    """On devices that work in whole tiles and waves: 1,024 tiles on 80 processors are 13 waves."""

    def tiled(device: Device, seed: int) -> list[Timing]:
        works = [
            timing.work for timing in _made_up(device, 1, seed) if timing.work.kind == "matmul"
        ]
        each = _tiled_us(works, device)
        return [Timing(work, device, us) for work, us in zip(works, each, strict=True)]

    fitted = gpu_time.fit([*tiled(H100, 1), *tiled(devices()["a100-pcie-40gb"], 2)])
    work = _product(4096, 4096, 4096)
    moved_us = 3 * 4 * 4096**2 / 900e9 * 1e6
    computed_us = 2 * 4096**3 / 14e12 * 1e6 * 13 / (1024 / 80)
    expected_us = moved_us + computed_us + 1.0
    assert _us(fitted, work, devices()["v100"]) == pytest.approx(expected_us, rel=0.05)


@pytest.mark.parametrize("work", [_sum_of(2**27), _product(4096, 4096, 4096)])
def test_what_is_slower_than_peaks_waits_to_be_fed(work: Work) -> None:
    """A multiprocessor of a V100 has less to do: it comes nearer to its peaks than an H100."""
    fitted = gpu_time.fit(_made_up(H100, 0.25, seed=1))
    v100 = devices()["v100"]
    on_h100, on_v100 = (
        _us(fitted, work, device) / _roofline(work, device) for device in (H100, v100)
    )
    assert on_h100 == pytest.approx(4, rel=0.15)
    assert 1 < on_v100 < 0.8 * on_h100


def test_what_nobody_timed_takes_its_bytes_over_bandwidth() -> None:
    fitted = gpu_time.fit(
        [timing for timing in _made_up(H100, 0.5, 1) if timing.work.kind == "matmul"]
    )
    work = _sum_of(2**26)
    assert not fitted.knows(work)
    assert _us(fitted, work) == pytest.approx(3 * 4 * 2**26 / 3352e9 * 1e6 + 1.0)


def test_a_kind_that_nobody_timed_takes_that_of_its_like() -> None:
    """Convolutions go by products, reductions by sums; neither raises."""
    fitted = gpu_time.fit(_made_up(H100, 0.5, 1))
    given, weight = Tensor((64, 64, 56, 56), "float32"), Tensor((64, 64, 3, 3), "float32")
    convolution = work_of(Operator("convolution", (given, weight), (given,)))
    assert _us(fitted, convolution) > _roofline(convolution)
    assert not fitted.knows(convolution)
    total = work_of(Operator("sum", (given,), (Tensor((), "float32"),)))
    assert _us(fitted, total) > _roofline(total) / 2


def test_nothing_is_faster_than_its_peak_but_winograds_convolutions() -> None:
    """Products were timed as 40 times as fast; gradients are of 3 x 3, and of eight groups."""
    fitted = gpu_time.fit(_made_up(H100, 40.0, 1))
    v100 = devices()["v100"]
    for groups, spared in ((1, 2.25), (8, 1.0)):
        given = Tensor((64, 256, 56, 56), "float32")
        weight = Tensor((256, 256 // groups, 3, 3), "float32")
        work = work_of(Operator("convolution_backward", (given, given, weight), (given, weight)))
        least_us = 1e6 * work.flops / v100.peak["float32"] / spared
        assert _us(fitted, work, v100) == pytest.approx(least_us)


def test_half_precision_has_peaks_of_its_own() -> None:
    assert H100.peak_of(_product(64, 64, 64, "bfloat16")) == (989.4e12, "bfloat16")
    v100 = devices()["v100"]
    assert v100.peak_of(_product(64, 64, 64, "bfloat16")) == (14e12, "float32")
    assert v100.peak_of(_product(64, 64, 64, "float16")) == (112e12, "float16")


@pytest.mark.parametrize(("words", "least"), [(50_257, 2.5), (30_522, 1.8), (50_260, 1.2)])
def test_units_of_half_precision_wait_for_rows_that_are_not_aligned(
    words: int, least: float
) -> None:
    """Rows begin at 2, 4 and 8 bytes: nobody timed such, and all take longer than the next ones."""
    fitted = gpu_time.fit(_made_up(H100, 1.0, seed=1))
    aligned = -(-words // 64) * 64
    for dtype, is_slower in (("bfloat16", True), ("float32", False)):
        us, next_us = (
            _us(fitted, _product(8192, 768, columns, dtype), H100) for columns in (words, aligned)
        )
        assert (us / next_us > least) == is_slower


def test_products_in_float32_use_tf32_only_where_asked() -> None:
    work = _product(64, 64, 64)
    assert H100.peak_of(work)[1] == "float32"
    assert H100.peak_of(replace(work, dtype="tf32"))[1] == "tf32"


def test_products_backward_in_tf32_have_older_instructions_on_hopper_alone() -> None:
    """Forward, a bias has none of it: calls of one shape differ where backward has begun."""
    side, batch = (4096, 4096), (8, 64, 64)
    operators = (
        call("mm", [side, side], [side]),
        call("bmm", [batch, batch], [batch]),
        call("addmm", [side[:1], side, side], [side]),
        call("nll_loss_backward", [(1,)], [(1,)]),
    )
    step = GpuStep(operators, (0, 1, 2, 3, 0, 1, 2), (), 0, 0, 0, (0,))
    for name, precision, share in (
        ("h100", "tf32", 0.629),
        ("h100", "bfloat16", 1.0),
        ("a100", "tf32", 1.0),
    ):
        work = step_work(step, None, precision)  # type: ignore[arg-type]
        called = [work.works[place] for place in work.order if work.works[place].flops]
        peak = Calls(called, [devices()[name]]).peak[0]
        assert peak / peak[0] == pytest.approx([1, 1, 1, share, share, 1])


def test_small_boards_of_large_chips_cannot_hold_their_clocks() -> None:
    assert H100.strain == pytest.approx(1.0)
    assert devices()["rtx4090"].strain == pytest.approx(1.0)
    assert devices()["l4"].strain == pytest.approx(30.3 * 450 / 82.6 / 72)
    assert devices()["t4"].strain == pytest.approx(8.1e12 * 250 / 14e12 / 70)


def test_every_data_sheet_is_whole() -> None:
    for device in devices().values():
        assert device.peak["float32"] > 1e12
        assert device.source
    assert len(devices()) == sum(1 + len(board.aliases) for board in boards())  # each has its own


def test_node_types_name_their_gpu() -> None:
    names = ("gpu.h100", "g5.xlarge", "p3.2xlarge", "g6e.xlarge")
    gpus = [device.name for name in names if (device := device_of_node(name)) is not None]
    assert gpus == ["h100", "a10g", "v100-sxm2", "l40s"]
    assert device_of_node("m5.large") is None and device_of_node("emu.avx2.1c") is None


def test_peaks_are_those_of_cores_that_a_board_has() -> None:
    """Ada and Ampere of consumers have 128 cores a multiprocessor, each with two operations."""
    for name in ("a10g", "rtx3090", "l4", "l40s", "rtx4090"):
        board = devices()[name]
        clock_hz = board.peak["float32"] / (2 * 128 * board.multiprocessors)
        assert 1.6e9 < clock_hz < 2.6e9, name
    # Matrix units of an A10G do twice that in half precision, and in TF32 as much.
    a10g = devices()["a10g"]
    assert [a10g.peak[of] for of in ("float32", "tf32", "bfloat16")] == [35e12, 35e12, 70e12]
