"""Layers of others, of which everything is known because it was made up."""

import json

import numpy as np
import polars as pl
import pytest

from models.ceer.public_files import fit_layers

SHAPES = [(2, 32, 8, 16), (4, 16, 32, 32), (8, 8, 64, 8), (1, 64, 3, 64), (16, 32, 16, 16)]
SHAPES += [(3, 24, 20, 40), (12, 12, 12, 12), (6, 48, 5, 7), (9, 20, 30, 10), (5, 40, 25, 5)]


def convolutions(optimizer: str | None, us_per_million: float) -> pl.DataFrame:
    """Layers of 3 × 3, stride 2, SAME, that take 50 microseconds and so much for their work."""
    columns = ["batch_size", "image_size", "channels_in", "channels_out"]
    batch_size, side, channels_in, channels_out = (pl.col(name) for name in columns)
    millions = batch_size * (side / 2) ** 2 * 9 * channels_in * channels_out / 1e6
    return pl.DataFrame(SHAPES, schema=columns, orient="row").with_columns(
        subject_id=pl.concat_str(pl.lit(str(optimizer)), *columns, separator=" "),
        operation=pl.lit("Conv2D"),
        node_type=pl.lit("K80"),
        optimizer=pl.lit(optimizer, pl.String),
        kernel_size=pl.lit(3),
        stride=pl.lit(2),
        padding=pl.lit(1),
        value=(50 + us_per_million * millions) / 1e6,
    )


def test_forward_passes_and_training_have_regressions_of_their_own() -> None:
    rows = pl.concat([convolutions(None, 0.5), convolutions("Adam", 2.0)])
    fitted = fit_layers("own")(rows)
    assert sorted(fitted.models) == [
        ("K80", "Conv2D", "forward"),
        ("K80", "Conv2D", "training"),
    ]
    found = fitted.predict(rows.drop("value")).join(rows, on="subject_id", suffix="_measured")
    assert (found["value"] / found["value_measured"] - 1).abs().max() == pytest.approx(0, abs=1e-3)


def test_products_count_their_multiplications() -> None:
    rows = pl.DataFrame(
        {
            "subject_id": ["a", "b", "c", "d", "e", "f"],
            "operation": "MatMul",
            "node_type": "K80",
            "optimizer": None,
            "batch_size": [1, 2, 4, 8, 16, 32],
            "size_in": [100, 3000, 20, 700, 900, 50],
            "size_out": [4000, 30, 200, 80, 1000, 500],
        }
    ).with_columns(
        optimizer=pl.lit(None, pl.String),
        value=1e-4 + pl.col("batch_size") * pl.col("size_in") * pl.col("size_out") * 1e-9,
    )
    found = fit_layers("own")(rows).predict(rows.drop("value"))
    assert (found["value"] / rows["value"] - 1).abs().max() == pytest.approx(0, abs=1e-6)


def test_a_device_that_was_not_seen_is_not_forecast() -> None:
    rows = convolutions(None, 0.5)
    other = rows.drop("value").with_columns(node_type=pl.lit("M60"))
    assert fit_layers("paper")(rows).predict(other).is_empty()


def random_layers(rows: int, most: int) -> pl.DataFrame:
    """Products that take 1 ns for each multiplication, and 2 with Adam."""
    random = np.random.default_rng(0)
    sizes = {name: random.integers(1, most, rows) for name in ("batch_size", "size_in", "size_out")}
    work = pl.col("batch_size") * pl.col("size_in") * pl.col("size_out")
    words = random.choice(["SGD", "Adam"], rows)
    return pl.DataFrame({**sizes, "optimizer": words}).with_columns(
        pl.int_range(pl.len()).cast(pl.String).alias("subject_id"),
        operation=pl.lit("MatMul"),
        node_type=pl.lit("K80"),
        value=work * 1e-9 * pl.when(pl.col("optimizer") == "Adam").then(2.0).otherwise(1.0),
    )


def mean_error(found: pl.Series, expected: pl.Series) -> float:
    return float(np.abs(found.to_numpy() / expected.to_numpy() - 1).mean())


def test_trees_know_what_sizes_do_not_say() -> None:
    rows = random_layers(2000, 64)
    seen, asked = rows.head(1600), rows.tail(400)
    errors = {}
    for how in ("paper", "own"):
        found = fit_layers(how)(seen).predict(asked.drop("value"))
        errors[how] = mean_error(found["value"], asked["value"])
    assert errors["own"] < 0.1
    assert errors["paper"] > 0.3


def test_beyond_what_was_seen_the_form_goes_on_that_held_for_larger_ones() -> None:
    rows = random_layers(2000, 64).filter(optimizer="SGD")
    ten = rows.select(pl.all().exclude("batch_size", "value"), batch_size=pl.lit(640))
    ten = ten.filter((pl.col("size_in") > 32) & (pl.col("size_out") > 32))
    work = pl.col("batch_size") * pl.col("size_in") * pl.col("size_out")
    expected = ten.select(work * 1e-9).to_series()
    fitted = fit_layers("own")(rows)
    assert fitted.models["K80", "MatMul", "training"].regression.form == "work"
    assert mean_error(fitted.predict(ten)["value"], expected) < 0.02


def test_parameters_are_json_that_names_the_device() -> None:
    fitted = fit_layers("own")(random_layers(100, 64))
    (name,) = json.loads(fitted.parameters_json())
    assert name == "K80 MatMul training"
