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


def test_strides_and_valid_padding() -> None:
    attributes = {"strides": [1, 2, 2, 1], "padding": "VALID"}
    convolution = features("Conv2D", [[2, 5, 5, 3], [3, 3, 3, 4]], [[2, 2, 2, 4]], attributes)
    assert (convolution.stride, convolution.padding) == (4.0, 0.0)
    assert convolution.work == convolution.inside == pytest.approx(2 * 4 * 9 * 12 / 1e9)


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


def test_a_depthwise_convolution_has_one_filter_per_channel() -> None:
    depthwise = features(
        "DepthwiseConv2dNative", [[1, 4, 4, 6], [3, 3, 6, 1]], [[1, 4, 4, 6]], SAME
    )
    assert depthwise.work == pytest.approx(16 * 9 * 6 / 1e9)


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


def test_pools_compare_each_window() -> None:
    attributes = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
    forward = features("MaxPool", [[1, 7, 7, 2]], [[1, 3, 3, 2]], attributes)
    inputs = [[1, 7, 7, 2], [1, 3, 3, 2], [1, 3, 3, 2]]
    backward = features("MaxPoolGrad", inputs, [[1, 7, 7, 2]], attributes)
    assert forward.work == backward.work == pytest.approx(18 * 9 / 1e9)
    assert forward.stride == 4.0


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


def test_bytes_go_before_shapes() -> None:
    relu = features("Relu", [[1000]], [[1000]], {}, input_bytes=2000, output_bytes=1000)
    assert (relu.input, relu.output, relu.work) == (0.002, 0.001, 0.0)


@given(
    side=st.integers(1, 9),
    size=st.integers(1, 9),
    stride=st.integers(1, 3),
    padded=st.booleans(),
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


def test_tables_are_read_row_by_row() -> None:
    rows: list[tuple[str | int | None, ...]] = [("Relu", "[[2, 3]]", "[[2, 3]]", "{}", None, None)]
    rows += [
        ("Relu", None, None, None, 4000, None),
        ("aten::add", "[[2], 1.0, []]", "[]", None, None, None),
    ]
    names = ["type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
    kinds = dict(zip(names, [pl.String] * 4 + [pl.Int64] * 2, strict=True))
    frame = table(pl.DataFrame(rows * 2, schema=kinds, orient="row"))
    assert frame["input"].to_list() == pytest.approx([24e-6, 0.004, 8e-6] * 2)


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


@pytest.mark.parametrize(
    ("mask", "times"), [("[False, True, True]", 1), ("[True, True, False]", 2)]
)
def test_a_gradient_of_both_is_twice_the_work(mask: str, times: int) -> None:
    attributes = values("", "", "", "", STRIDES, PADDINGS, "[1, 1]", "False", "[0, 0]", "1", mask)
    grown = [[2, 4, 4, 4], IMAGE, KERNEL, []]
    gradient = pytorch_features("aten::convolution_backward", grown, [], attributes)
    assert gradient.work == pytest.approx(times * 2 * 3 * 4 * 16 * 9 / 1e9)


def test_products_and_lists_of_tensors() -> None:
    product = pytorch_features("aten::addmm", [[5], [2, 3], [3, 5], []], [[2, 5]], {})
    assert product.work == pytest.approx(30 / 1e9)
    joined = pytorch_features("aten::cat", [[[2, 3], [2, 5]], []], [[2, 8]], {})
    assert (joined.input, joined.output) == (64 / 1e6, 64 / 1e6)


def test_what_was_not_recorded_leaves_sizes() -> None:
    convolution = pytorch_features("aten::convolution", [IMAGE, KERNEL], [], {}, input_bytes=10**6)
    assert (convolution.input, convolution.work) == (1.0, 0.0)


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
