import pytest

from models.ceer.classes import classify, cpu_operations, scaling
from models.ceer.operation_times import median
from models.ceer.operations import select_computation
from tests.models.ceer.frames import observed, operation, step, steps

ROWS = observed(
    operation("a", "Conv2D", 400.0, count=2),
    operation("a", "Conv2D", 800.0, inputs=((7,),)),
    operation("a", "Relu", 499.9),
    operation("a", "DecodeJpeg", 9000.0),
    operation("a", "Conv2D", 90.0, node="fast"),
    operation("a", "Relu", 20.0, node="fast"),
    operation("a", "Mul", 600.0, node="fast"),
)


def test_the_slowest_node_type_decides() -> None:
    classes = classify(ROWS)
    # (2 · 400 + 800) / 3 = 533 us, though 90 on the other; Mul was measured only there.
    assert classes.slowest == "slow"
    assert classes.heavy == ("Conv2D", "Mul")
    assert classes.cpu == ("DecodeJpeg",)
    assert [classes.of(kind) for kind in ("Conv2D", "Relu", "Neg", "Where2")] == [
        *("heavy", "light", "light", "light")
    ]
    assert classes.of("DecodeJpeg") == "cpu"


def test_the_list_of_cpu_operations_holds_what_no_gpu_computes() -> None:
    assert {"DecodeJpeg", "ParseExampleV2"} <= cpu_operations()
    assert not {"Conv2D", "Relu", "MatMul", "FusedBatchNormV3", "MaxPool"} & cpu_operations()


def test_medians_are_of_operations_not_of_rows() -> None:
    rows = observed(
        operation("a", "Relu", 10.0, count=5),
        operation("a", "Neg", 30.0, count=2),
        operation("b", "Neg", 50.0, count=2, node="fast"),
        operation("b", "Conv2D", 900.0, count=9),
    )
    median_time = median(rows, ["Relu", "Neg"])
    assert median_time is not None
    assert median_time.us == 10.0
    # 7 · 10 instead of 110 and 2 · 10 instead of 100.
    assert median_time.error == pytest.approx((((40 / 110) ** 2 + 0.8**2) / 2) ** 0.5)
    assert median(rows, ["Exp"]) is None


def test_kernels_add_up_to_the_operators_that_launched_them() -> None:
    shape = [[2, 3]]
    rows = observed(
        operation("a", "aten::mm", 90.0, device="host", count=2, inputs=shape),
        operation("a", "aten::mm", 3.0, device="gpu", count=4, inputs=shape),
        operation("a", "aten::mm", 5.0, device="gpu", count=2, inputs=shape, input_bytes=1),
        operation("a", "aten::mm", 70.0, device="host", count=1, inputs=[[9, 9]]),
        operation("a", "aten::mm", 8.0, device="gpu", count=1, inputs=[[9, 9]]),
        operation("a", "Memset", 1.0, device="gpu", count=7),
    )
    computation = select_computation(rows).select("type", "count", "mean_us").sort("mean_us").rows()
    # Two products of two kernels of 3 us and one of 5 each, and one of a single kernel.
    assert computation == [("Memset", 7.0, 1.0), ("aten::mm", 1.0, 8.0), ("aten::mm", 2.0, 11.0)]


def test_epochs_get_shorter_with_devices() -> None:
    rows = scaling(
        steps(
            step("a", 1.0, 1),
            step("a", 1.2, 1),
            step("a", 1.65, 1, devices=2, link_mbps=100.0),
            step("b", 9.0, 1, devices=2),
        )
    )
    assert rows.select("dnn", "devices", "relative_time").rows() == [
        ("a", 1, pytest.approx(1.0)),
        ("a", 2, pytest.approx(0.75)),
    ]
