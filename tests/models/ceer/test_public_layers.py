"""Layers and steps of others, of which everything is known because it was made up."""

import polars as pl
import pytest

from models.ceer.public import PARAMETERS, fit_layers, fit_steps

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
    assert sorted(fitted.regressions) == [
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


def steps(dnn: str, batch_size: int, alone_s: float) -> pl.DataFrame:
    """Steps of one device, and of two: 10 ms and 1 ms per million parameters longer."""
    two_s = alone_s + 0.01 + PARAMETERS[dnn] * 1e-9
    return pl.DataFrame(
        {
            "subject_id": [f"{dnn} 1", f"{dnn} 2"],
            "node_type": "2x T4",
            "dataset": "syn",
            "variable_update": "replicated",
            "precision": "fp32",
            "distortions": False,
            "mode": "train",
            "dnn": dnn,
            "batch_size": batch_size,
            "world_size": [1, 2],
            "value": [batch_size / alone_s, 2 * batch_size / two_s],
        }
    )


def test_more_devices_add_what_is_linear_in_parameters() -> None:
    seen = pl.concat([steps("resnet50", 32, 0.2), steps("inception3", 32, 0.4)])
    vgg16 = steps("vgg16", 16, 0.3)
    fitted = fit_steps(pl.concat([seen, vgg16.head(1)]))
    found = fitted.predict(vgg16.tail(1).drop("value"))
    assert found.select("subject_id").item() == "vgg16 2"
    assert found["value"].item() == pytest.approx(vgg16["value"][1])


def test_steps_unknown_on_one_device_are_not_forecast() -> None:
    fitted = fit_steps(pl.concat([steps("resnet50", 32, 0.2), steps("inception3", 32, 0.4)]))
    assert fitted.predict(steps("vgg16", 16, 0.3).tail(1).drop("value")).is_empty()
