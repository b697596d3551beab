"""What an operation works on, as numbers that its time may depend on.

Sizes come from the shapes that tables `operation` and `operation_shape` hold; elements count four
bytes where a table does not say how many bytes there are (float32).
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import polars as pl

from warehouse.records import BadInput

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


_TORCH_CONVOLUTIONS: Mapping[str, tuple[int, int, int, int]] = {
    "aten::convolution": (0, 1, 3, 4),
    "aten::_convolution": (0, 1, 3, 4),
    "aten::convolution_overrideable": (0, 1, 3, 4),
    "aten::conv2d": (0, 1, 3, 4),
    "aten::cudnn_convolution": (0, 1, 3, 2),
    "aten::mkldnn_convolution": (0, 1, 4, 3),
    "aten::convolution_backward": (1, 2, 4, 5),
}
"""Positions of image, filter, strides and paddings."""
_TORCH_PRODUCTS: Mapping[str, tuple[int, int]] = {
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
        outputs: likewise; the rest as `features`.
        attributes: `values` where they were recorded.
        input_bytes: of all inputs.
        output_bytes: of all outputs.
    """
    sizes = {
        "input": megabytes(input_bytes, _torch_shapes(inputs)),
        "output": megabytes(output_bytes, _torch_shapes(outputs)),
    }
    if operation_type in _TORCH_CONVOLUTIONS:
        return _convolution(operation_type, inputs, attributes, sizes)
    if operation_type in _TORCH_PRODUCTS:
        left, right = (_shape(inputs, at) for at in _TORCH_PRODUCTS[operation_type])
        if len(left) >= 2 and len(right) >= 2:
            work = product_work(left, right, (*left[:-1], right[-1]))
            return Features(**sizes, filter=megabytes(None, [right]), work=work, inside=work)
    return Features(**sizes)


def convolution_shapes(operation_type: str, inputs: Sequence[Any]) -> tuple[Shape, Shape] | None:
    """Return the shapes of image and filter of a convolution in two dimensions; None of others."""
    if operation_type not in _TORCH_CONVOLUTIONS or not isinstance(inputs, list):
        return None
    image, kernel = (_shape(inputs, at) for at in _TORCH_CONVOLUTIONS[operation_type][:2])
    return (image, kernel) if len(image) == len(kernel) == 4 else None


def _convolution(
    operation_type: str,
    inputs: Sequence[Any],
    attributes: Mapping[str, object],
    sizes: Mapping[str, float],
) -> Features:
    shapes = convolution_shapes(operation_type, inputs)
    _, _, strides_at, paddings_at = _TORCH_CONVOLUTIONS[operation_type]
    strides, paddings = (_torch_numbers(attributes, at) for at in (strides_at, paddings_at))
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
    times = 1
    if operation_type.endswith("_backward"):  # of image, filter or both; both if it is not known
        mask = _value(attributes, -1)
        times = sum(map(bool, mask[:2])) if isinstance(mask, list) and len(mask) == 3 else 2
    return Features(
        **sizes,
        filter=megabytes(None, [kernel]),
        stride=float(math.prod(strides)),
        padding=1.0 if any(paddings) else 0.0,
        work=work * times,
        inside=inside * times,
    )


def _torch_numbers(attributes: Mapping[str, object], at: int) -> list[int]:
    value = _value(attributes, at)
    return [int(number) for number in value] if isinstance(value, list) else []


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
    tensor_shapes = _torch_shapes(shapes[at : at + 1])
    return tensor_shapes[0] if len(tensor_shapes) == 1 else ()


def _torch_shapes(given: Sequence[Any]) -> list[Shape]:
    """Return the shapes of all tensors, also of those in lists; numbers count as scalars."""
    shapes: list[Shape] = []
    for argument in given:
        if isinstance(argument, list) and argument:
            shapes += [argument] if _is_shape(argument) else _torch_shapes(argument)
    return shapes


_CONVOLUTIONS: Mapping[str, tuple[int | str, int | str, int | str]] = {
    "Conv2D": (0, 1, "output"),
    "_FusedConv2D": (0, 1, "output"),
    "DepthwiseConv2dNative": (0, 1, "output"),
    "Conv2DBackpropFilter": (0, "output", 2),
    "Conv2DBackpropInput": ("output", 1, 2),
    "DepthwiseConv2dNativeBackpropFilter": (0, "output", 2),
    "DepthwiseConv2dNativeBackpropInput": ("output", 1, 2),
}
"""Where image, filter and the map that the filter moves over are: an input, or the output."""
_PRODUCTS = {"MatMul", "_FusedMatMul", "BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"}
_POOLS = {"MaxPool", "MaxPoolV2", "AvgPool", "MaxPoolGrad", "AvgPoolGrad"}


NAMES = tuple(Features.__dataclass_fields__)
_VALUES = attrgetter(*NAMES)


def features(
    operation_type: str,
    inputs: Sequence[Shape],
    outputs: Sequence[Shape],
    attributes: Mapping[str, object],
    input_bytes: int | None = None,
    output_bytes: int | None = None,
) -> Features:
    """Return the features of one operation of a canonical type.

    Args:
        operation_type: as `networks.operation_graph.canonical` returns it.
        inputs: shape of each input; images are [batch, y, x, channels].
        outputs: shape of each output.
        attributes: `strides`, `ksize`, `padding` where there are any.
        input_bytes: of all inputs, None: four for each element.
        output_bytes: of all outputs, likewise.
    """
    if "FusedBatchNorm" in operation_type and inputs and outputs:
        # What a normalization leaves to its gradient is scratch: a library's own, of its own size.
        if "Grad" in operation_type:
            inputs = [*inputs[:5], *inputs[6:]]
        else:
            outputs = outputs[:5]
        input_bytes = output_bytes = None
    sizes = {"input": megabytes(input_bytes, inputs), "output": megabytes(output_bytes, outputs)}
    strides = _numbers(attributes.get("strides", [1, 1, 1, 1]))
    strides = strides[1:3] if len(strides) == 4 else strides  # over y and x
    padding = 1.0 if attributes.get("padding") in ("SAME", "same") else 0.0
    if operation_type in _CONVOLUTIONS:
        image, kernel, moved = (
            _tensor(where, inputs, outputs) for where in _CONVOLUTIONS[operation_type]
        )
        if len(image) == len(kernel) == len(moved) == 4:
            before = [
                _before(*where, padding)
                for where in zip(image[1:3], kernel[:2], moved[1:3], strides, strict=True)
            ]
            work, inside = multiplications(image, kernel, moved, strides, before)
            filter_mb = math.prod(kernel) * BYTES / 1e6
            return Features(
                **sizes,
                filter=filter_mb,
                stride=float(math.prod(strides)),
                padding=padding,
                work=work,
                inside=inside,
            )
    if operation_type in _PRODUCTS and len(inputs) >= 2 and outputs:
        work = product_work(inputs[0], inputs[1], outputs[0])
        filter_mb = math.prod(inputs[1]) * BYTES / 1e6
        return Features(**sizes, filter=filter_mb, work=work, inside=work)
    if operation_type in _POOLS and "ksize" in attributes and outputs:
        # The gradient's own map is its output; the pool's is what it was given last.
        pooled = inputs[-1] if operation_type.endswith("Grad") else outputs[0]
        work = math.prod(pooled) * math.prod(_numbers(attributes["ksize"])) / 1e9
        stride = float(math.prod(strides))
        return Features(**sizes, stride=stride, padding=padding, work=work, inside=work)
    return Features(**sizes)


def table(operations: pl.DataFrame) -> pl.DataFrame:
    """Return the columns `NAMES` for rows of type, inputs, outputs, attributes and bytes.

    Equal rows are read once.

    Args:
        operations: `type` (canonical), `inputs`, `outputs`, `attributes` (JSON as in table
            `operation_shape`, NULL: not known), `input_bytes`, `output_bytes` (may be NULL).

    Raises:
        BadInput: text that is not the JSON those columns hold.
    """
    key = ["type", "inputs", "outputs", "attributes", "input_bytes", "output_bytes"]
    known = operations.select(key).unique(maintain_order=True)
    rows = [_VALUES(_row(*row)) for row in known.iter_rows()]
    schema = dict.fromkeys(NAMES, pl.Float64)
    distinct = known.hstack(pl.DataFrame(rows, schema=schema, orient="row"))
    joined = operations.select(key).join(
        distinct, on=key, how="left", nulls_equal=True, maintain_order="left"
    )
    return joined.select(NAMES)


def _row(
    operation_type: str,
    inputs: str | None,
    outputs: str | None,
    attributes: str | None,
    input_bytes: int | None,
    output_bytes: int | None,
) -> Features:
    of_pytorch = "::" in operation_type
    try:
        # Arguments of PyTorch's operators may be lists of tensors.
        given, made = (
            [each for each in json.loads(text or "[]") if of_pytorch or _is_shape(each)]
            for text in (inputs, outputs)
        )
        return (pytorch_features if of_pytorch else features)(
            operation_type.partition(" (")[0],  # without the kind of a convolution
            given,
            made,
            json.loads(attributes or "{}"),
            input_bytes,
            output_bytes,
        )
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise BadInput(
            f"operation {operation_type}: expected inputs and outputs as lists of lists of counts "
            f"and attributes as an object, found {inputs}, {outputs} and {attributes} ({error}); "
            "profile again"
        ) from error


def _is_shape(given: object) -> bool:
    return isinstance(given, list) and all(isinstance(n, int) for n in given)


def _before(side: int, size: int, places: int, stride: int, padding: float) -> int:
    """Return the padding in front of a row: half of all, rounded down, as TensorFlow's SAME."""
    return max((places - 1) * stride + size - side, 0) // 2 if padding > 0 else 0


def _tensor(where: int | str, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Shape:
    given = outputs if where == "output" else inputs
    index = where if isinstance(where, int) else 0
    return given[index] if index < len(given) else ()


def _numbers(value: object) -> list[int]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list of numbers, found {value!r}")
    return [int(number) for number in value]
