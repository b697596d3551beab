import json

import pytest

from models.ceer.features import features, pytorch_features
from networks.operation_graph import GraphOperation
from networks.pytorch_graph import pytorch_graph


def values(*given: str) -> dict[str, object]:
    """Return attributes as the profiler writes them."""
    return {"values": list(given)}


IMAGE, KERNEL = [2, 3, 8, 8], [4, 3, 3, 3]
STRIDES, PADDINGS = "[2, 2]", "[1, 1]"


def test_a_convolution_multiplies_as_its_nhwc_twin_does() -> None:
    attributes = values("", "", "", "[1, 1]", PADDINGS, "[1, 1]", "False", "[0, 0]", "1")
    found = pytorch_features("aten::convolution", [IMAGE, KERNEL, []], [[2, 4, 8, 8]], attributes)
    twin = features(
        "Conv2D",
        [[2, 8, 8, 3], [3, 3, 3, 4]],
        [[2, 8, 8, 4]],
        {"strides": [1, 1, 1, 1], "padding": "SAME"},
    )
    assert found == twin


def test_a_convolution_s_own_padding_is_outside() -> None:
    attributes = values("", "", "", STRIDES, PADDINGS)
    found = pytorch_features("aten::convolution", [IMAGE, KERNEL, []], [], attributes)
    # 4 places a row, starting at -1, 1, 3, 5: the first meets two columns, the others three.
    assert found.work == 2 * 3 * 4 * 16 * 9 / 1e9
    assert found.inside == pytest.approx(2 * 3 * 4 * 11 * 11 / 1e9)
    assert (found.stride, found.padding, found.output) == (4.0, 1.0, 0.0)
    assert found.filter == 4 * 3 * 9 * 4 / 1e6
    named_by_library = pytorch_features(
        "aten::cudnn_convolution", [IMAGE, KERNEL], [], values("", "", PADDINGS, STRIDES, "[1, 1]")
    )
    assert named_by_library == found


@pytest.mark.parametrize(
    ("mask", "times"), [("[False, True, True]", 1), ("[True, True, False]", 2)]
)
def test_a_gradient_of_both_is_twice_the_work(mask: str, times: int) -> None:
    attributes = values("", "", "", "", STRIDES, PADDINGS, "[1, 1]", "False", "[0, 0]", "1", mask)
    grown = [[2, 4, 4, 4], IMAGE, KERNEL, []]
    found = pytorch_features("aten::convolution_backward", grown, [], attributes)
    assert found.work == pytest.approx(times * 2 * 3 * 4 * 16 * 9 / 1e9)


def test_products_and_lists_of_tensors() -> None:
    found = pytorch_features("aten::addmm", [[5], [2, 3], [3, 5], []], [[2, 5]], {})
    assert found.work == pytest.approx(30 / 1e9)
    joined = pytorch_features("aten::cat", [[[2, 3], [2, 5]], []], [[2, 8]], {})
    assert (joined.input, joined.output) == (64 / 1e6, 64 / 1e6)


def test_what_was_not_recorded_leaves_sizes() -> None:
    found = pytorch_features("aten::convolution", [IMAGE, KERNEL], [], {}, input_bytes=10**6)
    assert (found.input, found.work) == (1.0, 0.0)


@pytest.mark.parametrize("dnn", ["squeezenet", "resnet18", "mobilenet"])
def test_work_is_half_of_pytorch_s_count(dnn: str) -> None:
    counted = [operation for operation in pytorch_graph(dnn, 2, 48).operations if operation.flops]
    assert len(counted) > 30
    for one in counted:
        assert 2e9 * _features(one) == pytest.approx(one.flops), one


def _features(one: GraphOperation) -> float:
    inputs, outputs, attributes = map(json.loads, (one.inputs, one.outputs, one.attributes))
    return pytorch_features(one.type, inputs, outputs, attributes).work
