import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ceer.features import features, pytorch_features, table
from networks.operation_graph import GraphOperation
from networks.pytorch_graph import pytorch_graph
from warehouse.records import BadInput

SAME = {"strides": [1, 1, 1, 1], "padding": "SAME"}


def test_a_convolution_s_work_is_counted_by_hand() -> None:
    convolution = features("Conv2D", [[1, 4, 4, 2], [3, 3, 2, 5]], [[1, 4, 4, 5]], SAME)
    assert convolution.input == pytest.approx((32 + 90) * 4 / 1e6)
    assert convolution.filter == pytest.approx(90 * 4 / 1e6)
    assert convolution.output == pytest.approx(80 * 4 / 1e6)
    assert (convolution.stride, convolution.padding) == (1.0, 1.0)
    # 16 places, 9 taps, 2 × 5 channels; of the 12 taps along a side, 2 + 3 + 3 + 2 are inside.
    assert convolution.work == pytest.approx(16 * 9 * 10 / 1e9)
    assert convolution.inside == pytest.approx(10 * 10 * 10 / 1e9)


def test_gradients_of_a_convolution_multiply_as_often() -> None:
    image, kernel, out = [2, 6, 6, 3], [3, 3, 3, 7], [2, 6, 6, 7]
    forward = features("Conv2D", [image, kernel], [out], SAME)
    for kind, inputs, outputs in (
        ("Conv2DBackpropFilter", [image, [4], out], [kernel]),
        ("Conv2DBackpropInput", [[4], kernel, out], [image]),
    ):
        backward = features(kind, inputs, outputs, SAME)
        assert backward.work == pytest.approx(forward.work)
        assert backward.inside == pytest.approx(forward.inside)
        assert backward.filter == forward.filter


@pytest.mark.parametrize(
    ("kind", "left", "right", "product", "work"),
    [
        ("MatMul", [2, 3], [3, 4], [2, 4], 24),
        ("MatMul", [3, 2], [3, 4], [2, 4], 24),
        ("BatchMatMulV2", [5, 2, 3], [5, 3, 4], [5, 2, 4], 120),
    ],
)
def test_products(
    kind: str, left: list[int], right: list[int], product: list[int], work: int
) -> None:
    multiplication = features(kind, [left, right], [product], {})
    assert multiplication.work == pytest.approx(work / 1e9)
    assert multiplication.filter == pytest.approx(4 * 12 * (5 if len(right) == 3 else 1) / 1e6)


def test_scratch_space_of_normalizations_does_not_count() -> None:
    image, channel = [2, 4, 4, 8], [8]
    outputs = [image, *[channel] * 4]
    forward = [
        features("_FusedBatchNormEx", [image, *[channel] * 4], [*outputs, scratch], {}, size)
        for scratch, size in (([0], None), ([999], 10**6))
    ]
    assert forward[0] == forward[1]
    assert forward[0].input == forward[0].output == pytest.approx(4 * (256 + 32) / 1e6)
    backward = [
        features("FusedBatchNormGradV3", [image, image, *[channel] * 3, scratch], outputs, {})
        for scratch in ([0], [999])
    ]
    assert backward[0] == backward[1]
    assert backward[0].input == pytest.approx(4 * (512 + 24) / 1e6)


@given(
    side=st.integers(1, 9), size=st.integers(1, 9), stride=st.integers(1, 3), padded=st.booleans()
)
def test_the_padding_is_not_inside(side: int, size: int, stride: int, padded: bool) -> None:
    places = -(-side // stride) if padded else (side - size) // stride + 1
    if places < 1:
        return
    attributes = {"strides": [1, stride, stride, 1], "padding": "SAME" if padded else "VALID"}
    inputs, outputs = [[1, side, side, 1], [size, size, 1, 1]], [[1, places, places, 1]]
    convolution = features("Conv2D", inputs, outputs, attributes)
    assert 0 < convolution.inside <= convolution.work
    if not padded:
        assert convolution.inside == convolution.work


def test_what_is_no_shape_is_named() -> None:
    row = ("Conv2D", json.dumps({"a": 1}), "[]", '{"strides": 7}', None, None)
    names = ["type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
    with pytest.raises(BadInput, match=r"operation Conv2D: expected inputs and outputs as lists"):
        table(pl.DataFrame([row], schema=names, orient="row"))


def values(*given: str) -> dict[str, object]:
    """Return attributes as the profiler writes them."""
    return {"values": list(given)}


IMAGE, KERNEL = [2, 3, 8, 8], [4, 3, 3, 3]
STRIDES, PADDINGS = "[2, 2]", "[1, 1]"


def test_a_convolution_multiplies_as_its_nhwc_twin_does() -> None:
    attributes = values("", "", "", "[1, 1]", PADDINGS, "[1, 1]", "False", "[0, 0]", "1")
    convolution = pytorch_features(
        "aten::convolution", [IMAGE, KERNEL, []], [[2, 4, 8, 8]], attributes
    )
    twin = features(
        "Conv2D",
        [[2, 8, 8, 3], [3, 3, 3, 4]],
        [[2, 8, 8, 4]],
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    )
    assert convolution == twin


def test_a_convolution_s_own_padding_is_outside() -> None:
    attributes = values("", "", "", STRIDES, PADDINGS)
    convolution = pytorch_features("aten::convolution", [IMAGE, KERNEL, []], [], attributes)
    # 4 places a row, starting at -1, 1, 3, 5: the first meets two columns, the others three.
    assert convolution.work == 2 * 3 * 4 * 16 * 9 / 1e9
    assert convolution.inside == pytest.approx(2 * 3 * 4 * 11 * 11 / 1e9)
    assert (convolution.stride, convolution.padding, convolution.output) == (4.0, 1.0, 0.0)
    assert convolution.filter == 4 * 3 * 9 * 4 / 1e6
    named_by_library = pytorch_features(
        "aten::cudnn_convolution", [IMAGE, KERNEL], [], values("", "", PADDINGS, STRIDES, "[1, 1]")
    )
    assert named_by_library == convolution


def test_products_and_lists_of_tensors() -> None:
    product = pytorch_features("aten::addmm", [[5], [2, 3], [3, 5], []], [[2, 5]], {})
    assert product.work == pytest.approx(30 / 1e9)
    joined = pytorch_features("aten::cat", [[[2, 3], [2, 5]], []], [[2, 8]], {})
    assert (joined.input, joined.output) == (64 / 1e6, 64 / 1e6)


@pytest.mark.parametrize("dnn", ["squeezenet", "resnet18", "mobilenet"])
def test_work_is_half_of_pytorch_s_count(dnn: str) -> None:
    counted = [operation for operation in pytorch_graph(dnn, 2, 48).operations if operation.flops]
    assert len(counted) > 30
    for graph_operation in counted:
        assert 2e9 * _features(graph_operation) == pytest.approx(graph_operation.flops), (
            graph_operation
        )


def _features(operation: GraphOperation) -> float:
    inputs, outputs, attributes = map(
        json.loads, (operation.inputs, operation.outputs, operation.attributes)
    )
    return pytorch_features(operation.type, inputs, outputs, attributes).work
