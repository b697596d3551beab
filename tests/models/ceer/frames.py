"""Operations and steps typed in by hand, for tests of Ceer."""

import json
from collections.abc import Sequence
from typing import Any

import polars as pl

from models.ceer.operations import OBSERVED, NetworkOperations
from models.ceer.overhead import STEPS

MB = 250_000
"""Elements of a float32 tensor of one megabyte."""


def operation(
    dnn: str,
    kind: str,
    us: float,
    *,
    node: str = "slow",
    count: float = 1.0,
    inputs: Sequence[Sequence[int]] = ((MB,),),
    outputs: Sequence[Sequence[int]] = ((),),
    **more: Any,
) -> dict[str, Any]:
    """Return a row of `OBSERVED`."""
    return {
        "dnn": dnn,
        "image_size": 64,
        "batch_size": 8,
        "node_type": node,
        "type": kind,
        "device": None,
        "inputs": json.dumps(inputs),
        "outputs": json.dumps(outputs),
        "attributes": json.dumps(more.pop("attributes", {})),
        "input_bytes": None,
        "output_bytes": None,
        "count": count,
        "mean_us": us,
        "median_us": us,
        "sd_us": 0.0,
    } | more


def observed(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return rows of `OBSERVED` as a frame."""
    return pl.DataFrame(rows, schema=OBSERVED)


def step(dnn: str, step_s: float, parameters: int, **more: Any) -> dict[str, Any]:
    """Return a row of `STEPS`, of one profiled device without a link unless told."""
    return {
        "dnn": dnn,
        "image_size": 64,
        "batch_size": 8,
        "node_type": "slow",
        "devices": 1,
        "distributed": more.get("devices", 1) > 1,
        "link_mbps": None,
        "parameter_count": parameters,
        "step_s": step_s,
    } | more


def steps(*rows: dict[str, Any]) -> pl.DataFrame:
    """Return rows of `STEPS` as a frame."""
    return pl.DataFrame(rows, schema=STEPS)


def network(
    *rows: dict[str, Any], parameters: int = 10_000_000, batch_size: int = 8
) -> NetworkOperations:
    """Return a network of these operations; their times do not matter."""
    frame = observed(*rows).select(
        *("type", "count", "inputs", "outputs", "attributes", "input_bytes", "output_bytes")
    )
    return NetworkOperations("new", batch_size, parameters, frame)
