"""What an operation works on, as numbers that its time may depend on.

Sizes come from the shapes that tables `operation` and `operation_shape` hold; elements count four
bytes where a table does not say how many bytes there are (float32).
"""

import json
import math
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import polars as pl

from models.ceer.pytorch_features import (
    BYTES,
    Features,
    Shape,
    megabytes,
    multiplications,
    plain_type,
    product_work,
    pytorch_features,
)
from warehouse.records import BadInput

__all__ = ["NAMES", "Features", "features", "table"]

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
        inputs, outputs = _without_scratch(operation_type, inputs, outputs)
        input_bytes = output_bytes = None
    sizes = {
        "input": megabytes(input_bytes, inputs),
        "output": megabytes(output_bytes, outputs),
    }
    strides, padding = _strides(attributes), _padding(attributes)
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
    found = known.hstack(pl.DataFrame(rows, schema=schema, orient="row"))
    joined = operations.select(key).join(
        found, on=key, how="left", nulls_equal=True, maintain_order="left"
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
    read = _shapes
    describe = features
    if "::" in operation_type:
        read, describe = _arguments, pytorch_features
    try:
        return describe(
            plain_type(operation_type),
            read(inputs),
            read(outputs),
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


def _shapes(text: str | None) -> list[list[int]]:
    found = json.loads(text or "[]")
    return [one for one in found if isinstance(one, list) and all(isinstance(n, int) for n in one)]


def _arguments(text: str | None) -> list[Any]:
    """Return the shapes of a PyTorch operator's arguments, which may be lists of tensors."""
    found = json.loads(text or "[]")
    return found if isinstance(found, list) else []


def _without_scratch(
    operation_type: str, inputs: Sequence[Shape], outputs: Sequence[Shape]
) -> tuple[Sequence[Shape], Sequence[Shape]]:
    """Leave out what a normalization leaves to its gradient: a library's own, of its own size."""
    if "Grad" in operation_type:
        return [*inputs[:5], *inputs[6:]], outputs
    return inputs, outputs[:5]


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


def _strides(attributes: Mapping[str, object]) -> list[int]:
    """Return the strides over y and x; 1 where none are given."""
    strides = _numbers(attributes.get("strides", [1, 1, 1, 1]))
    return strides[1:3] if len(strides) == 4 else strides


def _padding(attributes: Mapping[str, object]) -> float:
    return 1.0 if attributes.get("padding") in ("SAME", "same") else 0.0
