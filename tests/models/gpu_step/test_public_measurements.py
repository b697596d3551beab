"""What public sources tell: calls, layers and steps, read of their rows."""

from collections import Counter
from math import log

import numpy as np
import pytest

from benchmarks.gpu import public_tables
from models.gpu_step import gpu_time
from models.gpu_step.device import devices
from models.gpu_step.host_time import RELATIVE, HostTime
from models.gpu_step.judged_steps import (
    JudgedCase,
    fit_hosts,
    judged,
    judged_passes,
    kind_of_step,
    past_errors,
    simulated,
    times_of,
)
from models.gpu_step.measurements import Measurements
from models.gpu_step.operators import Work
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.step import StepWork
from models.gpu_step.timed_calls import kernels, products
from models.gpu_step.timed_passes import sailor_layers
from tests.models.gpu_step.public import PUBLIC


@pytest.fixture(scope="module")
def measured() -> Measurements:
    return read_measurements(public_tables(PUBLIC))


def test_a_product_is_as_fast_as_the_median_of_those_who_timed_it() -> None:
    row = {"device": "NVIDIA H200", "rows": 128, "inner": 64, "columns": 256}
    (timing,) = products([row | {"value": seconds} for seconds in (5e-6, 9e-6, 6e-6)])
    assert timing.us == pytest.approx(6) and timing.work.flops == 2 * 128 * 64 * 256
    assert (timing.device, timing.work.dtype) == (devices()["h200"], "bfloat16")


def test_products_of_flagperf_are_of_squares() -> None:
    rows = [
        {"operation": name, "dtype": "float32", "device": "a100", "value": 1e-3}
        for name in ("mm", "linear", "bmm", "gelu")
    ]
    mm, linear, bmm, gelu = (timing.work for timing in kernels(rows))
    assert (mm.dtype, linear.dtype) == ("tf32", "float32")
    assert mm.flops == linear.flops == 2 * 8192**3 and bmm.flops == 2 * 2 * 4096**3
    assert gelu.bytes == 2 * 4 * 2**30


def test_a_layer_has_the_products_of_its_model() -> None:
    """Forward: 24 x hidden^2 operations a token, and two products of attention; backward twice."""
    row = {"model": "OPT-350", "device": "NVIDIA A100-SXM4-40GB", "batch": 2, "tensor_parallel": 1}
    rows = [row | {"metric": name, "value": 0.01} for name in ("forward_s", "backward_s")]
    (layer,) = sailor_layers([*rows, *[each | {"tensor_parallel": 2} for each in rows]])
    products = [work for work in layer.work.works if work.kind == "matmul"]
    flops = sum(work.flops for work in products)
    assert flops == 3 * 2 * 2048 * (24 * 1024**2 + 4 * 2048 * 1024)
    assert layer.step_us == pytest.approx(20_000)
    assert {work.dtype for work in products} == {"tf32"}


def test_steps_of_others_have_what_they_are_trained_with(measured: Measurements) -> None:
    steps = {(step.network, step.batch): step for step in measured.elsewhere}
    bert, convnext = steps["bert-tf32", 1], steps["convnext_large-fp16", 408]
    assert sum(each.numbers for each in bert.trace.parameters) == 109_514_298
    assert "tf32" in {work.dtype for work in bert.work.works if work.kind == "matmul"}
    # Gradients of transformers are added to those of the step before.
    added = bert.work.order[-len(bert.trace.parameters) :]
    assert {bert.work.works[place].name for place in added} == {"add"}
    assert convnext.work.waits and not bert.work.waits
    # 80 x 3,000 numbers a sample come from memory that is not pinned, 400 MB in 0.172 s.
    whisper = steps["whisper", 72]
    assert whisper.copied_us == pytest.approx(72 * 80 * 3000 * 4 / 400e6 * 0.172e6, rel=2e-3)
    assert not bert.copied_us and not convnext.copied_us
    (judged_step,) = judged([whisper], gpu_time.GpuTime({}), HostTime(RELATIVE, 0.0))
    (whisper_us,) = times_of([whisper], gpu_time.GpuTime({}))
    plain = simulated(whisper.work, whisper_us, HostTime(RELATIVE, 0.0))
    assert judged_step.step.step_us == pytest.approx(plain.step_us + whisper.copied_us)
    assert 197e6 < sum(each.numbers for each in convnext.trace.parameters) < 199e6
    lora = next(step for step in measured.elsewhere if step.network == "qwen_1_8b lora")
    assert sum(each.bytes for each in lora.trace.frozen) == pytest.approx(2 * 1.84e9, rel=0.01)


@pytest.mark.parametrize(("network", "layers"), [("qwen_1_8b lora", 24), ("qwen_14b lora", 40)])
def test_adapters_of_qwen_are_not_cast(measured: Measurements, network: str, layers: int) -> None:
    """A layer has 12 casts of norms and two copies of gradients in a pass, and 9 are beside layers.

    Seven adapters have two products forward, two computed again and four backward, and dropout.
    """
    step = next(step for step in measured.elsewhere if step.network == network)
    calls = [
        (work.name, float(count))
        for work, count in zip(step.work.works, step.work.calls, strict=True)
    ]
    assert sum(count for name, count in calls if name == "copy") / 8 == 14 * layers + 9
    assert sum(count for name, count in calls if name == "mm") / 8 > 7 * 8 * layers
    assert sum(count for name, count in calls if name == "native_dropout") / 8 == 7 * 3 * layers
    # The host issues one layer and adapter for queries, keys and values: two of three are not.
    names = np.array([work.name for work in step.work.works])[step.work.order]
    left_out = Counter(names[~np.asarray(step.work.issued)].tolist())
    assert left_out["addmm"] / 8 == 2 * 2 * layers
    assert left_out["mm"] / 8 == 2 * (2 + 2 + 4 + 1) * layers
    assert left_out["native_dropout"] / 8 == 2 * 3 * layers


def test_hosts_of_three_sources_are_known(measured: Measurements) -> None:
    times = gpu_time.fit(measured.timings)
    hosts = fit_hosts((*measured.steps, *measured.elsewhere), times)
    assert hosts.slowness.keys() == {"gpu_h100", "milabench", "qwen"}
    assert hosts.slowness["milabench"] < 1 and hosts.middle == hosts.of("milabench")
    assert abs(judged_passes(measured.layers[0], times).error) < 0.5


def _case(kind: str, times: float, device: str = "h100") -> JudgedCase:
    return JudgedCase("a", "a", device, "float32", 1, "family", times, 1.0, kind)


def test_intervals_are_as_wide_as_errors_of_the_kind_where_there_are_some() -> None:
    products = [_case("products in half precision", 1.05) for _ in range(20)]
    others = [_case("convolutions in half precision", 1.5) for _ in range(19)]
    past = past_errors({"timed": [*products, *others]})
    assert past.keys() == {"timed", "timed, products in half precision"}
    assert past["timed"].half_width == pytest.approx(log(1.5))
    of_products = past["timed, products in half precision"]
    assert of_products.half_width == pytest.approx(log(1.05)) and of_products.n == 20
    assert of_products.percent == pytest.approx(5) and of_products.devices == ("h100",)


def test_a_step_is_of_the_kind_of_most_of_its_products() -> None:
    mm = Work("matmul", "mm", "bfloat16", 10.0, 1.0)
    convolution = Work("convolution", "convolution", "float32", 15.0, 1.0)
    both, copy = (mm, convolution), Work("copy", "copy", "float32", 0.0, 8.0)
    assert kind_of_step(StepWork.of(both, [2, 1])) == "products in half precision"
    assert kind_of_step(StepWork.of(both, [1, 1])) == "convolutions in full precision"
    assert kind_of_step(StepWork.of([copy], [1])) == "no products"


def test_inference_is_judged_in_both_layouts(measured: Measurements) -> None:
    inference = [each for each in measured.passes if each.source.startswith("timm_inference")]
    by_source = {(each.source[-4:], each.device.name, each.network): each for each in inference}
    contiguous = by_source["nchw", "rtx4090", "resnet50"]
    other = by_source["nhwc", "rtx4090", "resnet50"]
    assert other.step_us < contiguous.step_us
    assert any(work.channels_last for work in other.work.works)
    called = [contiguous.work.works[place].kind for place in contiguous.work.order]
    assert not any(kind.endswith("backward") or kind == "normalization" for kind in called)


def test_collectives_are_read_with_the_sizes_of_whole_buffers(measured: Measurements) -> None:
    timed = measured.collectives.filter(devices=8, link_bps=450e9, nodes=1).sort("size_bytes")
    largest = {
        cluster: timed.filter(cluster=cluster, collective="all_reduce").row(-1, named=True)
        for cluster in ("aiconfigurator h100", "azure h100")
    }
    # 2^28 elements of two bytes in 2.11 ms; 8 GiB at 478.87 GB/s of bus bandwidth.
    of_aic, of_azure = largest.values()
    assert of_aic["size_bytes"] == pytest.approx(2**29)
    assert of_aic["seconds"] == pytest.approx(2.11e-3, rel=0.01)
    assert of_azure["size_bytes"] == pytest.approx(2**33)
    assert of_azure["seconds"] == pytest.approx(2 * 7 / 8 * 2**33 / 478.87e9)
    assert set(timed["collective"]) == {"all_reduce", "all_gather", "reduce_scatter", "all_to_all"}


@pytest.mark.parametrize(
    ("family", "name", "dtype", "us"),
    [
        # 11.4 and 11.5 us of the loss, 302.9 and 497.7 of the zeros that it fills first.
        ("bert", "nll_loss_backward", "float32", {314.3}),
        ("gpt2", "nll_loss_backward", "float32", {509.2}),
        # BEiT reads a table of positions, and adds them to scores: its kernel is another one.
        ("beit", "index", "float32", {24.7}),
        ("beit", "attention_biased", "bfloat16", {153.6}),
        ("beit", "attention_backward_biased", "bfloat16", {423.9}),
        ("beit", "attention", "bfloat16", set()),
        ("vit", "attention", "bfloat16", {47.4}),
    ],
)
def test_a_profiled_row_is_what_ran(
    measured: Measurements, family: str, name: str, dtype: str, us: set[float]
) -> None:
    timed = {
        round(timing.us, 1)
        for timing in measured.timings
        if (timing.family, timing.work.name, timing.work.dtype) == (family, name, dtype)
        and timing.us > 10
    }
    assert us <= timed and (us or not timed)


def test_hosts_wait_where_they_make_the_numbers_of_positions(measured: Measurements) -> None:
    """BEiT: for 12 layers, and for the gradients of their positions; a ViT has none."""
    waits = {step.network: len(step.work.waits) for step in measured.steps}
    assert (waits["beit_base"], waits["vit_base16"]) == (24, 0)
