import polars as pl
import pytest

from models.ceer.classes import classify, deviations, scaling, type_times
from tests.models.ceer.frames import observed, operation, step, steps

ROWS = observed(
    operation("a", "Conv2D", 900.0, count=3, input_bytes=2_000_000, sd_us=45.0),
    operation("b", "Conv2D", 500.0, count=1, input_bytes=6_000_000, sd_us=100.0),
    operation("a", "Relu", 30.0, count=2, sd_us=30.0),
    operation("a", "Conv2D", 200.0, node="fast", input_bytes=2_000_000),
)
CLASSES = classify(ROWS)


def test_a_type_s_time_and_cost() -> None:
    found = type_times(ROWS, CLASSES, {"slow": 0.9, "fast": 3.6})
    assert found.select("type", "class", "node_type").rows() == [
        ("Conv2D", "heavy", "fast"),
        ("Conv2D", "heavy", "slow"),
        ("Relu", "light", "slow"),
    ]
    slow = found.row(1, named=True)
    assert (slow["operations"], slow["mean_us"], slow["input_mb"]) == (4.0, 800.0, 3.0)
    assert slow["usd"] == pytest.approx(800 * 0.9 / 3.6e9)
    # Four times as fast at four times the price.
    assert found.row(0, named=True)["usd"] == pytest.approx(slow["usd"])
    assert found.row(2, named=True)["input_mb"] is None
    assert type_times(ROWS, CLASSES)["usd"].to_list() == [None] * 3


def test_deviations_are_a_distribution() -> None:
    found = deviations(ROWS, CLASSES).filter(pl.col("node_type") == "slow")
    assert found.select("class", "deviation", "share").rows() == [
        ("heavy", pytest.approx(0.05), 0.75),
        ("heavy", pytest.approx(0.2), 1.0),
        ("light", 1.0, 1.0),
    ]


def test_epochs_get_shorter_with_devices() -> None:
    found = scaling(
        steps(
            step("a", 1.0, 1),
            step("a", 1.2, 1),
            step("a", 1.65, 1, devices=2, link_mbps=100.0),
            step("b", 9.0, 1, devices=2),
        )
    )
    assert found.select("dnn", "devices", "relative_time").rows() == [
        ("a", 1, pytest.approx(1.0)),
        ("a", 2, pytest.approx(0.75)),
    ]
