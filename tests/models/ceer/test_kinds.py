"""Kinds of convolutions: told by shapes, and each with times of its own."""

import polars as pl
import pytest

from models.ceer.operation_times import add_operation_types
from models.ceer.operations import COLUMNS, NetworkOperations
from models.ceer.predictor import fit, predict_steps
from tests.models.ceer.frames import observed, operation, step, steps

IMAGE = [8, 32, 16, 16]
KERNELS = {
    "": [64, 32, 3, 3],
    " (pointwise)": [64, 32, 1, 1],
    " (grouped)": [64, 8, 2, 2],
    " (depthwise)": [32, 1, 3, 3],
}
ONE = {"values": ["", "", "", "[1, 1]", "[1, 1]"]}


@pytest.mark.parametrize("kind", KERNELS)
def test_shapes_tell_the_kind(kind: str) -> None:
    kernel = KERNELS[kind]
    shapes = {
        "aten::convolution": f"[{IMAGE}, {kernel}, []]",
        "aten::convolution_backward": f"[{IMAGE}, {IMAGE}, {kernel}, []]",
    }
    rows = pl.DataFrame({"type": list(shapes), "inputs": list(shapes.values())})
    assert add_operation_types(rows)["type"].to_list() == [f"{name}{kind}" for name in shapes]


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
        predict_steps(fit(observed(*rows), measured, published), new, "slow")["heavy_s"]
        for published in (False, True)
    )
    assert own.to_list() == pytest.approx([0.03], rel=0.05)
    assert paper.item() < 0.02
