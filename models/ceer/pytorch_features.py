"""What PyTorch's operators work on, as numbers: images are [batch, channels, y, x].

Arguments come as PyTorch's profiler records them, by position: shapes of tensors (nothing for other
arguments) and, under `values`, texts of all others (nothing for tensors).
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from models.ceer.sizes import Features, Shape, megabytes, multiplications, product_work

_CONVOLUTIONS: Mapping[str, tuple[int, int, int, int]] = {
    "aten::convolution": (0, 1, 3, 4),
    "aten::_convolution": (0, 1, 3, 4),
    "aten::convolution_overrideable": (0, 1, 3, 4),
    "aten::conv2d": (0, 1, 3, 4),
    "aten::cudnn_convolution": (0, 1, 3, 2),
    "aten::mkldnn_convolution": (0, 1, 4, 3),
    "aten::convolution_backward": (1, 2, 4, 5),
}
"""Positions of image, filter, strides and paddings."""
_PRODUCTS: Mapping[str, tuple[int, int]] = {
    "aten::addmm": (1, 2),
    "aten::mm": (0, 1),
    "aten::bmm": (0, 1),
    "aten::baddbmm": (1, 2),
}


def pytorch_features(
    operation_type: str,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    attributes: Mapping[str, object],
    input_bytes: int | None = None,
    output_bytes: int | None = None,
) -> Features:
    """Return the features of one operator.

    Where its outputs were not recorded, as in traces of the profiler, their size is 0.

    Args:
        operation_type: for example `aten::convolution`.
        inputs: shapes, [] for what is no tensor, a list of shapes for a list of tensors.
        outputs: likewise.
        attributes: `values` where they were recorded.
        input_bytes: of all inputs, None: four for each element.
        output_bytes: of all outputs, likewise.
    """
    sizes = {
        "input": megabytes(input_bytes, _shapes(inputs)),
        "output": megabytes(output_bytes, _shapes(outputs)),
    }
    if operation_type in _CONVOLUTIONS:
        return _convolution(operation_type, inputs, attributes, sizes)
    if operation_type in _PRODUCTS:
        left, right = (_shape(inputs, at) for at in _PRODUCTS[operation_type])
        if len(left) >= 2 and len(right) >= 2:
            work = product_work(left, right, (*left[:-1], right[-1]))
            return Features(**sizes, filter=megabytes(None, [right]), work=work, inside=work)
    return Features(**sizes)


def plain(operation_type: str) -> str:
    """Return a type without the kind of its convolution (`models.ceer.kinds`)."""
    return operation_type.partition(" (")[0]


def convolved(operation_type: str, inputs: Sequence[Any]) -> tuple[Shape, Shape] | None:
    """Return the shapes of image and filter of a convolution in two dimensions; None of others."""
    if operation_type not in _CONVOLUTIONS or not isinstance(inputs, list):
        return None
    image, kernel = (_shape(inputs, at) for at in _CONVOLUTIONS[operation_type][:2])
    return (image, kernel) if len(image) == len(kernel) == 4 else None


def _convolution(
    operation_type: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, object],
    sizes: Mapping[str, float],
) -> Features:
    shapes = convolved(operation_type, inputs)
    _, _, strides_at, paddings_at = _CONVOLUTIONS[operation_type]
    strides, paddings = _numbers(attributes, strides_at), _numbers(attributes, paddings_at)
    if shapes is None or not len(strides) == len(paddings) == 2:
        return Features(**sizes)
    image, kernel = shapes
    places = [
        (side + 2 * padding - size) // stride + 1
        for side, size, stride, padding in zip(
            image[2:], kernel[2:], strides, paddings, strict=True
        )
    ]
    work, inside = multiplications(
        (image[0], *image[2:], image[1]),
        # Of groups, each output channel meets the channels of its own.
        (*kernel[2:], kernel[1], kernel[0]),
        (image[0], *places, kernel[0]),
        strides,
        paddings,
    )
    times = _gradients(attributes) if operation_type.endswith("_backward") else 1
    return Features(
        **sizes,
        filter=megabytes(None, [kernel]),
        stride=float(math.prod(strides)),
        padding=1.0 if any(paddings) else 0.0,
        work=work * times,
        inside=inside * times,
    )


def _gradients(attributes: Mapping[str, object]) -> int:
    """Return of how many of image and filter a gradient is computed; of both if it is not known."""
    mask = _value(attributes, -1)
    return sum(map(bool, mask[:2])) if isinstance(mask, list) and len(mask) == 3 else 2


def _numbers(attributes: Mapping[str, object], at: int) -> list[int]:
    value = _value(attributes, at)
    return [int(one) for one in value] if isinstance(value, list) else []


def _value(attributes: Mapping[str, object], at: int) -> object:
    values = attributes.get("values")
    if not isinstance(values, list) or not -len(values) <= at < len(values):
        return None
    text = str(values[at]).lower()
    try:
        return json.loads(text)
    except ValueError:
        return None


def _shape(shapes: Sequence[Any], at: int) -> Shape:
    found = _shapes(shapes[at : at + 1])
    return found[0] if len(found) == 1 else ()


def _shapes(given: Sequence[Any]) -> list[Shape]:
    """Return the shapes of all tensors, also of those in lists; numbers count as scalars."""
    found: list[Shape] = []
    for one in given:
        if isinstance(one, list) and one:
            found += [one] if all(isinstance(n, int) for n in one) else _shapes(one)
    return found
