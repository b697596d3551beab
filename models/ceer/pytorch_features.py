"""What PyTorch's operators work on, as numbers: shapes, sizes and work ([batch, channels, y, x]).

Arguments come as PyTorch's profiler records them, by position: shapes of tensors (nothing for other
arguments) and, under `values`, texts of all others (nothing for tensors).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# Sizes and work of operations: what all frameworks have in common.


Shape = Sequence[int]
BYTES = 4
"""Of an element, where a table does not say (float32)."""


@dataclass(frozen=True)
class Features:
    """Sizes in megabytes, work in billions of multiplications.

    `filter` is the size of the filter or of the right factor of a product. `stride` is the product
    of strides, `padding` 1 for SAME and 0 for VALID, both 0 where there is none. `work` counts all
    multiplications of a convolution or product (comparisons of a pool), `inside` leaves out those
    with the padding around an image.
    """

    input: float
    filter: float = 0.0
    output: float = 0.0
    stride: float = 0.0
    padding: float = 0.0
    work: float = 0.0
    inside: float = 0.0


def megabytes(size_bytes: int | None, shapes: Sequence[Shape]) -> float:
    """Return a size, that of all elements where nobody says."""
    if size_bytes is not None:
        return size_bytes / 1e6
    return sum(math.prod(shape) for shape in shapes) * BYTES / 1e6


def multiplications(
    image: Shape, kernel: Shape, moved: Shape, strides: Sequence[int], before: Sequence[int]
) -> tuple[float, float]:
    """Return billions of multiplications of a convolution: all, and those inside the image.

    Args:
        image: [batch, y, x, channels].
        kernel: [y, x, channels in, channels out].
        moved: the map that the filter moves over, as the image.
        strides: over y and x.
        before: padding above and left of the image.
    """
    each = moved[0] * kernel[2] * kernel[3]
    work = each * moved[1] * moved[2] * kernel[0] * kernel[1]
    taps = 1
    for side, size, places, stride, padding in zip(
        image[1:3], kernel[:2], moved[1:3], strides, before, strict=True
    ):
        taps *= _taps_inside(side, size, places, stride, padding)
    return work / 1e9, each * taps / 1e9


def product_work(left: Shape, right: Shape, product: Shape) -> float:
    """Return b m n k / 1e9 of b products of m × k and k × n: the root of all sizes' product / b."""
    batch = math.prod(product[:-2])
    sizes = math.prod(left) * math.prod(right) * math.prod(product)
    return math.sqrt(sizes / batch) / 1e9 if batch else 0.0


def _taps_inside(side: int, size: int, places: int, stride: int, before: int) -> int:
    """Return how many elements of a row a filter of `size` meets at all its places together."""
    starts = (place * stride - before for place in range(places))
    return sum(max(min(start + size, side) - max(start, 0), 0) for start in starts)


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


def plain_type(operation_type: str) -> str:
    """Return a type without the kind of its convolution (`models.ceer.operation_times`)."""
    return operation_type.partition(" (")[0]


def convolution_shapes(operation_type: str, inputs: Sequence[Any]) -> tuple[Shape, Shape] | None:
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
    shapes = convolution_shapes(operation_type, inputs)
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
