"""The system: what a forecast consists of, what is refused, what is left out of what judges it."""

import json
import random
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from itertools import product
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from models.gpu_step import scenario_steps
from models.gpu_step.host_time import RELATIVE, HostTime
from models.gpu_step.judged_steps import (
    PastErrors,
    fits_without_devices,
    judged_devices,
    judged_families,
    simulated,
)
from models.gpu_step.measurements import Measurements
from models.gpu_step.public_measurements import read_measurements
from models.gpu_step.requirements import gpu_of
from models.gpu_step.step import step_work
from models.gpu_step.system import GPU_STEP, GpuStepModel, fit_model
from models.system import FittedWithDetail, NotCovered
from models.systems import SYSTEMS
from networks.gpu_steps import GpuStep, Operator, StepKey, Tensor
from tests.models.gpu_step.public import inventory_tables, made_up_steps, public_tables, scenario
from tests.models.gpu_step.traces import trace_tables, write_trace
from warehouse.records import BadInput, NodeGroup, Scenario, Strategy
from warehouse.requirements import Refusal


@cache
def measured() -> Measurements:
    return read_measurements(public_tables())


@cache
def model() -> GpuStepModel:
    return fit_model(measured())


@pytest.fixture(autouse=True)
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scenario_steps, "gpu_steps", made_up_steps)


def test_public_measurements_are_read() -> None:
    measurements = measured()
    assert {step.family for step in measurements.steps} == {"resnet", "bert", "gpt2"}
    first = measurements.steps[0]
    assert (first.network, first.size, first.batch) == ("resnet50", 224, 64)
    assert first.step_us == pytest.approx(36_813.2)
    # The sum of its operators, without rows that repeat others.
    assert first.gpu_us == pytest.approx(35_330, rel=0.01)
    assert sum(tensor.numbers for tensor in first.trace.parameters) == 25_557_032
    kinds = {timing.work.kind for timing in measurements.timings if timing.device.name == "h100"}
    assert {"matmul", "convolution", "attention", "optimizer", "normalization"} <= kinds
    assert {"a100-sxm4-80gb", "v100", "t4", "p4", "p100"} <= {
        timing.device.name for timing in measurements.timings
    }


def test_rows_that_are_not_there_are_told() -> None:
    tables = {name: table.clear() for name, table in public_tables().items()}
    with pytest.raises(BadInput, match="stepcast load public"):
        fit_model(read_measurements(tables))


def test_a_forecast_says_what_it_consists_of() -> None:
    case = scenario(batch_size=64)
    (row,) = model().predict([case]).to_dicts()
    detail = model().detail(case)
    assert row["value"] == pytest.approx(max(detail["gpu_s"], detail["host_s"]), rel=0.01)
    assert row["low"] < row["value"] < row["high"]
    assert detail["binds"] == "host" and detail["free_batch_size"] > 64
    assert detail["fits"] and detail["largest_batch_size"] > 64
    assert (detail["rests_on"], detail["device"]) == ("public", "h100")
    assert detail["costliest"][0]["operator"] == "mm" and detail["costliest"][0]["calls"] == 3
    json.dumps(detail)


@pytest.mark.parametrize("node_type", ["gpu.h100", "gpu.v100", "gpu.l4", "p4de.24xlarge"])
def test_a_step_is_the_sum_of_its_parts(node_type: str) -> None:
    """Whatever the precision, batch and optimizer; only float16 waits, for its scaling."""
    waited = []
    for batch_size, precision, optimizer, accumulate in product(
        (1, 16, 256, 4096), ("float32", "tf32", "bfloat16", "float16"), ("sgd", "adamw"), (1, 3)
    ):
        load = {"precision": precision, "optimizer": optimizer, "accumulate": accumulate}
        case = scenario(node_type, batch_size=batch_size, **load)
        if isinstance(GPU_STEP.requires(case), Refusal):
            continue
        detail = model().detail(case)
        longer_s = max(detail["gpu_s"], detail["host_s"])
        parts_s = longer_s + detail["waits_s"] + detail["varied_s"]
        assert model().predict([case])["value"][0] == pytest.approx(parts_s, rel=1e-9)
        # At most all that the host issues is not hidden behind the GPU, and the other way round.
        assert detail["waits_s"] <= min(detail["gpu_s"], detail["host_s"]) * 1.001
        assert precision == "float16" or detail["waits_s"] == pytest.approx(0, abs=1e-12)
        waited.append(detail["waits_s"] > 0.001 * longer_s)
    assert any(waited)


def test_what_a_step_costs_once_is_hidden_where_the_host_waits_for_loss_scaling() -> None:
    """After the check it issues two of 43 calls, the optimizer's and the next step's first."""
    relu = Operator("relu", (Tensor((1024,), "float32"),), (Tensor((1024,), "float32"),))
    held = Tensor((1024,), "float32")
    work = step_work(GpuStep((relu,), (0,) * 40, (held,), 1, 1, 1, (1024,)), "sgd", "float16")
    us = np.where(work.on_gpu, 30_000 / 42, 0.0)
    step = simulated(work, us, HostTime(dict.fromkeys(RELATIVE, 1.0), 20_000.0))
    assert step.gpu_us == pytest.approx(30_000, rel=0.01)
    assert 0 < step.waits_us < 3 * (20_000 / 43 + 1)


@pytest.mark.parametrize(("flops", "is_refused"), [(1e9, False), (1e11, True)])
def test_operators_of_unknown_work_are_refused_above_a_twentieth_of_the_gpus_time(
    flops: float, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most 1e9 operations take 0.02 ms of 4; of those that may take longer somebody is told."""

    def steps(wanted: Iterable[StepKey]) -> Mapping[StepKey, GpuStep]:
        return {key: with_unknown(step) for key, step in made_up_steps(wanted).items()}

    def with_unknown(step: GpuStep) -> GpuStep:
        given = step.operators[0].inputs[:1]
        unknown = Operator("mine::fused", given, given, False, flops, True)
        operators = (*step.operators, unknown)
        return replace(step, operators=operators, order=(*step.order, len(operators) - 1))

    case = scenario(batch_size=256, dnn="resnet50", image_size=224)
    known = GPU_STEP.load(model().parameters_json(), {})
    assert isinstance(known, FittedWithDetail)
    plain = known.detail(case)
    monkeypatch.setattr(scenario_steps, "gpu_steps", steps)
    doubted = GPU_STEP.load(model().parameters_json(), {})
    if is_refused:
        with pytest.raises(NotCovered, match=r"resnet50: operators .* up to \d+ %.* mine::fused;"):
            doubted.predict([case])
    else:
        assert isinstance(doubted, FittedWithDetail)
        assert doubted.detail(case)["unknown_share"] > plain["unknown_share"]
        widths = [
            fit.predict([case]).select(pl.col("high") / pl.col("value")).item()
            for fit in (known, doubted)
        ]
        assert widths[1] > widths[0]


def test_products_alone_count_as_flops_of_a_model_in_each_pass() -> None:
    left, right, out = (Tensor(shape, "float32") for shape in ((8, 16), (16, 4), (8, 4)))
    mm, relu = Operator("mm", (left, right), (out,)), Operator("relu", (out,), (out,))
    step = GpuStep((mm, relu), (0, 1, 0, 0), (Tensor((64,), "float32"),), 1, 1, 1, (64,))
    flops = step_work(step, "adamw", "float32", 2).flops_by_dtype
    assert sum(flops.values()) == 2 * 3 * (2 * 8 * 16 * 4)


@pytest.mark.parametrize(("dtype", "waits"), [("float32", 1), ("float16", 0), ("bfloat16", 0)])
def test_loss_is_scaled_where_some_gradient_is_in_full_precision(dtype: str, waits: int) -> None:
    held = Tensor((64,), dtype)
    step = GpuStep((Operator("relu", (held,), (held,)),), (0,), (held,), 1, 1, 1, (64,))
    assert len(step_work(step, "sgd", "float16").waits) == waits


def test_flops_of_a_model_are_none_that_are_computed_again_and_in_the_type_of_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A module in bfloat16, without autocast, does four products, one of them again."""

    def steps(wanted: Iterable[StepKey]) -> Mapping[StepKey, GpuStep]:
        half = {key: key._replace(precision="bfloat16") for key in wanted}
        made = made_up_steps(half.values())
        return {
            key: replace(made[other], order=(*made[other].order, 0), kept=made[other])
            for key, other in half.items()
        }

    monkeypatch.setattr(scenario_steps, "gpu_steps", steps)
    fitted = GPU_STEP.load(model().parameters_json(), {})
    assert isinstance(fitted, FittedWithDetail)
    detail = fitted.detail(scenario(batch_size=8))
    assert detail["product_flops"] == 3 * 2 * 64 * 8 * 1024 * 1024
    assert detail["peak_flops_per_s"] == gpu_of(scenario()).peak["bfloat16"]
    assert detail["is_unlike_judged"]
    with pytest.raises(NotCovered, match="products in bfloat16; v100 has no matrix units for bfl"):
        fitted.predict([scenario("gpu.v100", batch_size=8)])


def test_a_compiled_step_tells_what_that_buys() -> None:
    eager, default, replayed = (
        model().detail(scenario(batch_size=8, compiled=mode))
        for mode in (False, "default", "reduce-overhead")
    )
    assert eager["eager"] is None and not eager["is_unlike_judged"]
    assert default["is_unlike_judged"]
    # Products and sums stay what they are; CUDA graphs have them.
    beside = default["eager"]
    assert beside["launches"] == beside["compiled_launches"] == 6 + 1
    assert eager["host_s"] == pytest.approx(default["host_s"], rel=0.02)
    assert replayed["host_s"] < default["host_s"]
    assert eager["gpu_s"] == pytest.approx(default["gpu_s"]) == pytest.approx(replayed["gpu_s"])
    assert beside["longer"] == pytest.approx(default["step_s"] / eager["step_s"] - 1)
    assert beside["graph_breaks"] == {}


def test_the_gpu_binds_where_batches_are_large() -> None:
    detail = model().detail(scenario(batch_size=16_384))
    assert detail["binds"] == "gpu" and detail["free_batch_size"] is None
    products_s = 3 * 2 * 64 * 16_384 * 1024 * 1024 / 66.9e12
    assert products_s < detail["gpu_s"] < 2.5 * products_s


def test_half_precision_and_tf32_are_faster_and_accumulation_repeats_passes() -> None:
    def gpu_s(**load: Any) -> float:
        return float(model().detail(scenario(batch_size=4096, **load))["gpu_s"])

    assert gpu_s(precision="bfloat16") < gpu_s(precision="tf32") < gpu_s()
    assert gpu_s(accumulate=4) == pytest.approx(4 * gpu_s(), rel=0.01)
    assert gpu_s(optimizer="adamw") > gpu_s()


def test_a_layout_that_nobody_timed_is_refused() -> None:
    assert not isinstance(GPU_STEP.requires(scenario()), Refusal)
    refused = GPU_STEP.requires(scenario(memory_format="channels_last"))
    assert isinstance(refused, Refusal) and not refused.foreign
    assert refused.reason.startswith("nobody timed channels_last but in half precision")
    half = scenario(memory_format="channels_last", precision="bfloat16")
    assert not isinstance(GPU_STEP.requires(half), Refusal)


def test_memory_grows_with_the_optimizers_state() -> None:
    def peak(**load: Any) -> int:
        return int(model().detail(scenario(batch_size=64, **load))["peak_bytes"])

    assert peak(optimizer="momentum") - peak() == 4 * 1024**2
    assert peak(optimizer="adamw") - peak() == 8 * 1024**2
    small = model().detail(scenario("gpu.t4", batch_size=65_536))
    assert not small["fits"] and small["largest_batch_size"] < 65_536


def test_a_gpu_that_nobody_timed_rests_on_its_data_sheet() -> None:
    assert model().detail(scenario("gpu.l4"))["rests_on"] == "data sheet"
    # T4's half precision was timed by nobody, its float32 was.
    assert model().detail(scenario("gpu.t4", precision="float16"))["rests_on"] == "data sheet"
    assert model().detail(scenario("gpu.t4"))["rests_on"] == "public"


def test_a_row_tells_on_which_boards_its_kinds_were_timed_in_its_precision() -> None:
    """p4de has the A100 whose operators were timed in float16, without copies or convolutions."""
    half = model().detail(scenario("p4de.24xlarge", precision="float16", batch_size=4096))
    own = half["timed_on"][0]
    assert (own["device"], own["dtypes"]) == ("a100-sxm4-80gb", ("float16",))
    assert half["rests_on"] == "public" and own["share"] > 0.9
    # Nobody measured whole steps of it: their errors are no networks' on an H100.
    assert half["past_devices"] == [] and half["past_n"] != len(measured().steps)
    on_h100 = model().detail(scenario(precision="float16", batch_size=4096))
    assert on_h100["timed_on"][0]["dtypes"] == ("bfloat16", "float32")
    assert (on_h100["past_devices"], on_h100["past_n"]) == (["h100"], len(measured().steps))
    # Products in TF32 were timed by nobody; float32's on a T4 were, its optimizer's step was not.
    tf32 = model().detail(scenario(precision="tf32", batch_size=4096))["timed_on"]
    assert next(each for each in tf32 if each["device"] is None)["share"] > 0.5
    t4 = model().detail(scenario("gpu.t4", batch_size=4096))["timed_on"]
    assert [each["device"] for each in t4] == ["t4", "h100"]


def test_convolutions_in_half_precision_on_an_a100_rest_on_an_h100(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def convolutions(wanted: Iterable[StepKey]) -> Mapping[StepKey, GpuStep]:
        given = Tensor((64, 64, 56, 56), "float16")
        weight = Tensor((64, 64, 3, 3), "float16")
        operator = Operator("convolution", (given, weight), (given,))
        (step,) = set(made_up_steps(wanted).values())
        return {key: replace(step, operators=(operator,), order=(0,)) for key in wanted}

    monkeypatch.setattr(scenario_steps, "gpu_steps", convolutions)
    fitted = fit_model(measured())
    case = scenario("p4de.24xlarge", dnn="resnet50", precision="float16", batch_size=256)
    detail = fitted.detail(case)
    assert detail["rests_on"] == "data sheet" and detail["unknown_share"] == 0
    largest = max(detail["timed_on"], key=lambda each: float(each["share"]))
    assert (largest["device"], largest["dtypes"][0]) == ("h100", "bfloat16")


def test_the_host_of_a_node_type_is_its_own_where_it_was_measured() -> None:
    """Nine operators that launch, three views that are free, the optimizer's, a parameter."""
    tables = dict(public_tables())
    for name, rows in inventory_tables("gpu.l4").items():
        tables[name] = pl.concat([tables[name], rows], how="diagonal_relaxed")
    fitted = GPU_STEP.fit(tables)
    again = GPU_STEP.load(fitted.parameters_json(), {})
    assert isinstance(again, FittedWithDetail)
    measured, others = scenario("gpu.l4"), scenario("g6.xlarge")
    detail, plain = again.detail(measured), again.detail(others)
    assert detail["host_s"] == pytest.approx(1e-6 * (100 + 2 + 3 * 8 + 3 * 5 + 5))
    assert (detail["host_rests_on"], plain["host_rests_on"]) == ("measured", "public")
    assert plain == model().detail(others)
    assert again.predict([others]).equals(model().predict([others]))
    assert detail["gpu_s"] == plain["gpu_s"]


def test_a_gpu_is_held_out_for_networks_whose_operators_nobody_timed_on_it() -> None:
    """Products in float16 were timed on an A100, convolutions were not."""
    images = scenario("gpu.a100-sxm4-80gb", precision="float16")
    words = images.model_copy(
        update={"workload": images.workload.model_copy(update={"image_size": 0})}
    )
    assert (model().split(images), model().split(words)) == ("held_out_device", None)
    timed = json.loads(model().parameters_json())["timed_nodes"]
    assert "gpu.h100 half images" in timed and "p4de half words" in timed
    assert "p4de half images" not in timed


def test_an_own_trace_corrects_its_board_and_is_named(tmp_path: Path) -> None:
    mm = ("aten::mm", [[512, 1024], [1024, 1024]], ["float"] * 2, ["", ""], "ampere_sgemm")
    case, other = scenario("gpu.l4"), scenario("gpu.a10g")
    plain = model().detail(case)
    (product,) = (each for each in plain["costliest"] if each["operator"] == "mm")
    slow_us = 3e6 * product["gpu_s"] / product["calls"]
    tables = dict(public_tables())
    traced = trace_tables(write_trace(tmp_path / "a.json", [(*mm, slow_us)]), "gpu.l4")
    for name in tables.keys() & traced.keys():
        tables[name] = pl.concat([tables[name], traced[name]], how="diagonal_relaxed")
    again = GPU_STEP.load(GPU_STEP.fit(tables).parameters_json(), {})
    assert isinstance(again, FittedWithDetail)
    detail = again.detail(case)
    (corrected,) = (each for each in detail["costliest"] if each["operator"] == "mm")
    assert 2.0 < corrected["gpu_s"] / product["gpu_s"] < 3.0
    assert (plain["own_traces"], detail["own_traces"]) == ([], ["your trace step.json"])
    assert (plain["own_share"], detail["rests_on"]) == (0.0, "data sheet")
    assert 0.3 < detail["own_share"] <= 1.0
    assert detail["host_rests_on"] == "measured"
    assert again.predict([other]).equals(model().predict([other]))
    assert again.detail(other)["own_traces"] == []


def test_what_it_says_nothing_of() -> None:
    refusal = GPU_STEP.requires(scenario("gpu.t4", precision="bfloat16"))
    assert (
        isinstance(refusal, Refusal)
        and "t4 has no matrix units for bfloat16; it has some for float16" in refusal.reason
    )
    unknown = GPU_STEP.requires(scenario("gpu.mine"))
    assert isinstance(unknown, Refusal) and not unknown.foreign
    assert "no data sheet of a GPU of gpu.mine" in unknown.reason
    processor = GPU_STEP.requires(scenario("emu.avx2.1c"))
    assert isinstance(processor, Refusal) and processor.foreign


def several(node_type: str, workers: int, devices: int, **load: Any) -> Scenario:
    strategy = Strategy(kind="all_reduce", workers=workers, devices_per_node=devices)
    group = NodeGroup(role="worker", node_type=node_type, count=workers)
    single = scenario(node_type, **{"dnn": "large", "batch_size": 64, **load})
    return single.model_copy(update={"strategy": strategy, "nodes": (group,)})


def seconds_of(case: Scenario) -> float:
    return float(model().predict([case])["value"][0])


def test_several_gpus_exchange_gradients_over_the_links_of_the_catalogue() -> None:
    alone = seconds_of(several("p4d.24xlarge", 1, 1))
    single = model().predict([scenario("p4d.24xlarge", dnn="large", batch_size=64)])["value"][0]
    assert alone == pytest.approx(single)
    within, across = (seconds_of(several("p4d.24xlarge", nodes, 8)) for nodes in (1, 4))
    assert alone < within < across
    # An instance with the Elastic Fabric Adapter beside one of the same GPU that has TCP alone.
    assert seconds_of(several("g5.8xlarge", 4, 1)) < seconds_of(several("g5.4xlarge", 4, 1))
    detail = model().detail(several("g5.4xlarge", 4, 1))
    assert (detail["gpus"], detail["scaling_n"]) == (4, 0)
    assert detail["exchange_s"] > 0
    assert model().detail(scenario("g5.4xlarge"))["exchange_s"] is None
    # A network as fast as asked is not held to what TCP does.
    limited = several("g5.8xlarge", 4, 1).model_copy(update={"link_mbps": 100.0})
    assert seconds_of(limited) > seconds_of(several("g5.8xlarge", 4, 1))
    assert model().detail(limited)["binds"] == "exchange"


def test_a_sharded_network_exchanges_more_and_needs_less_memory() -> None:
    whole = several("p4d.24xlarge", 2, 8, optimizer="adamw")
    strategy = Strategy(kind="sharded", workers=2, devices_per_node=8)
    sharded = whole.model_copy(update={"strategy": strategy})
    assert sharded.label.startswith(
        "large 32px b64, adamw, unshaped, sharded of 8 devices each, W=2"
    )
    sharded_detail, replicated = model().detail(sharded), model().detail(whole)
    assert sharded_detail["exchange_s"] > replicated["exchange_s"]
    assert sharded_detail["peak_bytes"] < replicated["peak_bytes"]
    known = [other.requires(sharded) for other in SYSTEMS if other is not GPU_STEP]
    assert known and all(isinstance(refusal, Refusal) for refusal in known)


def test_intervals_hold_nine_of_ten_errors_and_the_next_one() -> None:
    errors = [0.01 * percent for percent in range(1, 20)]
    past = PastErrors.of(errors)
    assert past.half_width == pytest.approx(0.18) and past.n == 19
    assert PastErrors.of([]) == PastErrors(log(3.0), None, 0)
    assert sum(error <= past.half_width for error in errors) / len(errors) >= 0.9


def test_a_family_that_is_left_out_has_no_influence_on_its_forecasts() -> None:
    """Permuted times of its operators and steps change no forecast of it, to the bit."""
    plain = measured()
    draw = random.Random(3)
    places = [place for place, timing in enumerate(plain.timings) if timing.family == "bert"]
    times_us = [plain.timings[place].us for place in places]
    draw.shuffle(times_us)
    timings = list(plain.timings)
    for place, us in zip(places, times_us, strict=True):
        timings[place] = replace(timings[place], us=us)
    steps = tuple(
        replace(step, step_us=step.step_us * draw.uniform(0.3, 3))
        if step.family == "bert"
        else step
        for step in plain.steps
    )
    permuted = replace(plain, timings=tuple(timings), steps=steps)

    def forecasts(measurements: Measurements, family: str) -> list[float]:
        return [
            judged.step.step_us
            for judged in judged_families(measurements)
            if judged.measured.family == family
        ]

    assert forecasts(plain, "bert") == forecasts(permuted, "bert")
    assert forecasts(plain, "gpt2") != forecasts(permuted, "gpt2")


def test_a_device_that_is_left_out_has_no_influence_on_its_forecasts() -> None:
    plain = measured()
    draw = random.Random(4)
    timings = tuple(
        replace(timing, us=timing.us * draw.uniform(0.2, 5))
        if timing.device.name == "v100"
        else timing
        for timing in plain.timings
    )
    permuted = replace(plain, timings=timings)

    def forecasts(measurements: Measurements, name: str) -> list[float]:
        only = replace(measurements, steps=())
        passes, _ = judged_devices(only, fits_without_devices(only))
        return [judged.error for judged in passes if judged.measured.device.name == name]

    assert forecasts(plain, "v100") == forecasts(permuted, "v100")
    assert forecasts(plain, "t4") != forecasts(permuted, "t4")


def test_shards_are_traced_in_half_precision_throughout_and_replicas_under_autocast() -> None:
    traced: list[StepKey] = []

    def noted(keys: list[StepKey]) -> dict[StepKey, object]:
        traced.extend(keys)
        return dict(made_up_steps(keys))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenario_steps, "gpu_steps", noted)
        asked = [scenario(precision=precision) for precision in ("tf32", "bfloat16")]
        strategy = Strategy(kind="sharded", workers=1, devices_per_node=1)
        sharded = [each.model_copy(update={"strategy": strategy}) for each in asked]
        GPU_STEP.prepare([*asked, *sharded])
    assert [key.precision for key in traced] == ["float32", "bfloat16", "float32", "bfloat16-true"]
