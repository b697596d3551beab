"""Kinds of PyTorch's convolutions: one operator there, whose kinds take unlike times.

TensorFlow has an operation of its own for convolutions of single channels; its others are alike.
"""

import json

import polars as pl

from models.ceer.parameters import Settings
from models.ceer.pytorch_features import convolved

_KEY = ["type", "inputs"]


def typed(operations: pl.DataFrame, settings: Settings) -> pl.DataFrame:
    """Return operations with types that name the kind of a convolution, such as `(depthwise)`.

    Args:
        operations: type (canonical) and inputs (JSON as in table operation_shape, NULL: not known),
            among other columns.
        settings: whether kinds count; else types stay as they are.
    """
    if not settings.by_kind:
        return operations
    known = operations.select(_KEY).unique(maintain_order=True)
    named = pl.Series("named", [_named(*row) for row in known.iter_rows()], pl.String)
    return (
        operations.join(known.with_columns(named), on=_KEY, nulls_equal=True, maintain_order="left")
        .with_columns(pl.col("named").alias("type"))
        .drop("named")
    )


def _named(operation_type: str, inputs: str | None) -> str:
    try:
        shapes = convolved(operation_type, json.loads(inputs or "[]"))
    except ValueError:
        return operation_type  # `features.table` says what is wrong with it
    if shapes is None:
        return operation_type
    (_, channels, *_), (_, of_group, *sides) = shapes
    if of_group == channels:
        return f"{operation_type} (pointwise)" if set(sides) == {1} else operation_type
    return f"{operation_type} ({'depthwise' if of_group == 1 else 'grouped'})"
