"""Operators of one's own trace: what each does, how long it took, and what that corrects."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import TypeAdapter

from models.gpu_step.device import devices
from models.gpu_step.gpu_time import Timing, fit
from models.gpu_step.operators import Work, work_of
from models.gpu_step.own_times import OwnTimes
from models.gpu_step.own_traces import read_traces
from networks.gpu_steps import Operator, Tensor
from profilers.readers import kineto
from profilers.readers.contract import ReaderOptions
from tests.models.gpu_step.traces import ISSUE_US, OTHERS_US, PRODUCT, trace_tables, write_trace
from warehouse.records import BadInput


def half(*sides: int) -> Tensor:
    return Tensor(sides, "bfloat16")


def full(*sides: int) -> Tensor:
    return Tensor(sides, "float32")


HALF = "c10::BFloat16"
TOLD: list[tuple[tuple[Any, ...], Operator]] = [
    (PRODUCT, Operator("mm", (half(512, 1024), half(1024, 256)), (half(512, 256),))),
    (
        (
            "aten::cudnn_convolution",
            [[8, 3, 224, 224], [64, 3, 7, 7], [], [], [], [], [], [], []],
            ["float", "float", "", "", "", "Scalar", "Scalar", "Scalar", "Scalar"],
            ["", "", "[3, 3]", "[2, 2]", "[1, 1]", "1", "False", "False", "True"],
            "sm90_xmma_fprop_implicit_gemm_tf32f32",
        ),
        Operator(
            "convolution", (full(8, 3, 224, 224), full(64, 3, 7, 7)), (full(8, 64, 112, 112),)
        ),
    ),
    (
        (
            "aten::_flash_attention_forward",
            [[2, 128, 12, 64]] * 3 + [[]] * 7,
            [HALF] * 3 + [""] * 7,
            [*[""] * 7, "0.", "True", "False"],
            "flash_fwd_kernel",
        ),
        Operator(
            "_flash_attention_forward",
            (half(2, 12, 128, 64),) * 3,
            (half(2, 12, 128, 64),),
            flops=2.0 * 2 * 2 * 12 * 128 * 129 / 2 * 64,
        ),
    ),
    (
        ("aten::add_", [[32, 64], [64], []], ["float", "float", "Scalar"], ["", "", "1"], "vector"),
        Operator("add_", (full(32, 64), full(64)), (full(32, 64),)),
    ),
    (
        ("aten::copy_", [[32, 64], [32, 64], []], [HALF, "float", ""], [""] * 3, "to_half"),
        Operator("_to_copy", (full(32, 64),), (half(32, 64),)),
    ),
    (
        ("aten::sum", [[32, 64], [], []], ["float", "", ""], ["", "[0]", "False"], "reduce"),
        Operator("sum", (full(32, 64),), (full(64),)),
    ),
]


@pytest.mark.parametrize(("call", "operator"), TOLD)
def test_an_operator_is_what_a_traced_step_has(
    tmp_path: Path, call: tuple[Any, ...], operator: Operator
) -> None:
    path = write_trace(tmp_path / "step.json", [(*call, 40.0), (*call, 60.0)])
    (trace,) = read_traces(trace_tables(path, "g6.xlarge"))
    assert trace.device.name == "l4"
    (timing,) = trace.timings
    assert timing.work == work_of(operator)
    assert (timing.us, timing.calls) == pytest.approx((50.0, 2.0))


@pytest.mark.parametrize(
    "call",
    [
        ("aten::copy_", [[9], [9]], ["float", "float"], ["", ""], "Memcpy HtoD (Pinned -> Device)"),
        ("aten::cat", [[[9], [9]], []], ["TensorList", "Scalar"], ["", "0"], "CatArrayBatchedCopy"),
        ("mine::custom", [[9]], ["float"], [""], "custom"),
        ("aten::_flash_attention_forward", [[2, 8, 4, 4]] * 3, [HALF] * 3, [""] * 3, "flash"),
    ],
)
def test_what_a_trace_does_not_tell_is_left_out(tmp_path: Path, call: tuple[Any, ...]) -> None:
    path = write_trace(tmp_path / "step.json", [(*call, 40.0), (*PRODUCT, 60.0)])
    (trace,) = read_traces(trace_tables(path, "gpu.l4"))
    assert [timing.work.name for timing in trace.timings] == ["mm"]


def test_a_product_in_float32_is_tf32_where_its_kernel_says_so(tmp_path: Path) -> None:
    sides = [[64, 64], [64, 64]]
    calls = [
        ("aten::mm", sides, ["float"] * 2, ["", ""], kernel, 9.0)
        for kernel in (
            "ampere_sgemm_128x64_tn",
            "cutlass_80_tensorop_s1688gemm_128x64",
            "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n",
        )
    ]
    found = []
    for call in calls:
        path = write_trace(tmp_path / "step.json", [call])
        (trace,) = read_traces(trace_tables(path, "gpu.l4"))
        found.append((trace.timings[0].work.dtype, trace.timings[0].work.turned))
    assert found == [("float32", False), ("tf32", True), ("tf32", False)]


def test_the_host_issues_an_operator_as_often_as_the_trace_says(tmp_path: Path) -> None:
    path = write_trace(tmp_path / "step.json", [(*PRODUCT, 5.0)] * 20 + [(*TOLD[3][0], 5.0)] * 20)
    samples = trace_tables(path, "gpu.l4")["sample"]
    times_us = {
        name.removeprefix("inventory_issue_").removesuffix("_s"): 1e6 * value
        for name, value in samples.select("metric", "value").iter_rows()
    }
    assert times_us["product"] == times_us["elementwise"] == pytest.approx(ISSUE_US)
    assert times_us["step"] == pytest.approx(OTHERS_US, rel=0.01)


def test_a_trace_without_shapes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "step.json"
    path.write_text(
        '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, '
        '"ts": 1, "dur": 2}]}'
    )
    with pytest.raises(BadInput, match="record_shapes=True"):
        next(iter(kineto.read(path, ReaderOptions(worker="gpu.l4"))))


def test_only_what_is_like_traced_operators_on_their_board_is_corrected() -> None:
    def product(rows: int, dtype: str = "bfloat16") -> Work:
        left, right = Tensor((rows, 1024), dtype), Tensor((1024, 1024), dtype)
        return work_of(Operator("mm", (left, right), (Tensor((rows, 1024), dtype),)))

    t4, l4 = devices()["t4"], devices()["l4"]
    public = fit([Timing(product(rows), t4, 10.0 + rows / 100) for rows in (256, 1024, 4096)])
    (forecast_us,) = public.us([product(1024)], [l4])[0]
    own = OwnTimes(public, [Timing(product(1024), l4, 2 * forecast_us)])
    asked = [product(1024), product(2048), product(65536), product(1024, "float32")]
    same, near, far, other = own.us(asked, [l4])[0] / public.us(asked, [l4])[0]
    assert 1.6 < same < 2.0 and 1.2 < near < same and 1.0 < far < near and other == 1.0
    assert np.array_equal(own.us(asked, [t4]), public.us(asked, [t4]))
    in_json = TypeAdapter(OwnTimes)
    again = in_json.validate_json(in_json.dump_json(own))
    assert np.allclose(again.us(asked, [l4]), own.us(asked, [l4]))
