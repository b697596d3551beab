"""Kinds of convolutions: told by shapes, and each with times of its own."""

import polars as pl
import pytest

from models.ceer.operation_times import add_operation_types
from models.ceer.operations import COLUMNS, NetworkOperations
from models.ceer.parameters import PAPER, Settings
from models.ceer.predictor import fit
from tests.models.ceer.frames import observed, operation, step, steps

IMAGE = [8, 32, 16, 16]
KERNELS = {
    "": [64, 32, 3, 3],
    " (pointwise)": [64, 32, 1, 1],
    " (grouped)": [64, 8, 2, 2],
    " (depthwise)": [32, 1, 3, 3],
}
ONE = {"values": ["", "", "", "[1, 1]", "[1, 1]"]}


def named(operation_type: str, inputs: str | None, settings: Settings | None = None) -> str:
    """Return the type of one operation."""
    rows = pl.DataFrame({"type": [operation_type], "inputs": [inputs]}, schema_overrides=TEXTS)
    (type_name,) = add_operation_types(rows, settings or Settings())["type"]
    return str(type_name)


TEXTS = {"type": pl.String, "inputs": pl.String}


@pytest.mark.parametrize("kind", KERNELS)
def test_shapes_tell_the_kind(kind: str) -> None:
    kernel = KERNELS[kind]
    assert named("aten::convolution", f"[{IMAGE}, {kernel}, []]") == f"aten::convolution{kind}"
    backward = f"[{IMAGE}, {IMAGE}, {kernel}, []]"
    assert named("aten::convolution_backward", backward) == f"aten::convolution_backward{kind}"
    assert named("aten::convolution", f"[{IMAGE}, {kernel}]", PAPER) == "aten::convolution"


def test_each_kind_takes_a_time_of_its_own() -> None:
    """Of equal images, grouped ones take ten times as long as those of single pixels."""
    us = {" (pointwise)": 1000.0, " (grouped)": 10_000.0}
    rows = [
        operation(
            dnn,
            "aten::convolution",
            factor * time_us,
            inputs=([8, 32, 16, 16 * factor], KERNELS[kind]),
            attributes=ONE,
            device="cpu",
        )
        for dnn, factor in (("a", 1), ("b", 2), ("c", 3))
        for kind, time_us in us.items()
    ]
    measured = steps(*(step(dnn, 1.0, 10**6) for dnn in "abc"))
    new = NetworkOperations("d", 8, 10**6, observed(rows[-1] | {"dnn": "d"}).select(COLUMNS))
    own, paper = (
        fit(operations=observed(*rows), steps=measured, settings=settings).predict(new)["heavy_s"]
        for settings in (Settings(), PAPER)
    )
    assert own.to_list() == pytest.approx([0.03], rel=0.05)
    assert paper.item() < 0.02
