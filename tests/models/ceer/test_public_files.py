"""Layers of others, of which everything is known because it was made up."""

import json

import numpy as np
import polars as pl
import pytest

from models.ceer.public_files import (
    PARAMETERS,
    PARAMETERS_OF_SUMS,
    Beside,
    PublicSums,
    fit_layers,
    fit_steps,
    fit_sums,
)
from warehouse.records import BadInput

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
    forecasts = fitted.predict(rows.drop("value")).join(rows, on="subject_id", suffix="_measured")
    assert (forecasts["value"] / forecasts["value_measured"] - 1).abs().max() == pytest.approx(
        0, abs=1e-3
    )


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
    forecasts = fit_layers("own")(rows).predict(rows.drop("value"))
    assert (forecasts["value"] / rows["value"] - 1).abs().max() == pytest.approx(0, abs=1e-6)


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


def mean_error(forecasts: pl.Series, expected: pl.Series) -> float:
    return float(np.abs(forecasts.to_numpy() / expected.to_numpy() - 1).mean())


def test_trees_know_what_sizes_do_not_say() -> None:
    rows = random_layers(2000, 64)
    seen, unseen = rows.head(1600), rows.tail(400)
    errors = {}
    for how in ("paper", "own"):
        forecasts = fit_layers(how)(seen).predict(unseen.drop("value"))
        errors[how] = mean_error(forecasts["value"], unseen["value"])
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
    forecasts = fitted.predict(vgg16.tail(1).drop("value"))
    assert forecasts.select("subject_id").item() == "vgg16 2"
    assert forecasts["value"].item() == pytest.approx(vgg16["value"][1])


def test_steps_unknown_on_one_device_are_not_forecast() -> None:
    fitted = fit_steps(pl.concat([steps("resnet50", 32, 0.2), steps("inception3", 32, 0.4)]))
    assert fitted.predict(steps("vgg16", 16, 0.3).tail(1).drop("value")).is_empty()


NETWORKS = ("bert_large", "gpt2_large", "opt_13")


def sums(beside_s: dict[str, tuple[float, float, float]]) -> pl.DataFrame:
    """Return steps by device: a constant, so much per billion parameters and per 1,000 launches."""
    rows = []
    for device, (fixed_s, per_parameter_s, per_launch_s) in beside_s.items():
        for place, dnn in enumerate(NETWORKS):
            forward_s, backward_s = 1.0 + place, None if place == 1 else 2.0
            operations = 1000 + 700 * place
            extra_s = (
                fixed_s
                + per_parameter_s * PARAMETERS_OF_SUMS[dnn] / 1e9
                + per_launch_s * operations / 1e3
            )
            total_s = forward_s + (backward_s or 0.0) + extra_s
            fields = f"{device} {dnn}", device, dnn, operations, forward_s + 0.1, backward_s, 0.1
            rows.append((*fields, total_s))
    names = ["subject_id", "node_type", "dnn", "operations", "forward_s", "backward_s"]
    return pl.DataFrame(rows, [*names, "bookkeeping_s", "value"], orient="row")


@pytest.mark.parametrize(
    ("beside", "planted"),
    [
        ("nothing", (0.0, 0.0, 0.0)),
        ("parameters", (0.02, 0.3, 0.0)),
        ("launches", (0.0, 0.0, -0.05)),
    ],
)
def test_what_was_planted_is_found_by_device(
    beside: Beside, planted: tuple[float, float, float]
) -> None:
    other = tuple(2 * value for value in planted)
    rows = sums({"fast": planted, "slow": other})  # type: ignore[dict-item]
    seen = rows.filter(pl.col("dnn") != "opt_13")
    unseen = rows.filter(dnn="opt_13")
    forecasts = fit_sums(beside)(seen).predict(unseen.drop("value"))
    assert forecasts["value"].to_list() == pytest.approx(unseen["value"].to_list())
    assert forecasts["low"].to_list() == [None, None]


def test_without_a_step_of_the_device_nothing_is_said() -> None:
    fitted = fit_sums("launches")(sums({"fast": (0.0, 0.0, 0.0)}))
    assert fitted.predict(sums({"slow": (0.0, 0.0, 0.0)})).is_empty()
    assert '"beside": "launches"' in fitted.parameters_json()


def test_networks_whose_parameters_nobody_counted() -> None:
    rows = sums({"fast": (0.0, 0.1, 0.0)}).with_columns(dnn=pl.lit("new"))
    with pytest.raises(BadInput, match="expected timed steps of networks whose parameters"):
        fit_sums("parameters")(rows)
    assert PublicSums("parameters", {"fast": (0.0, 0.1)}).predict(rows).is_empty()
    assert fit_sums("nothing")(rows).predict(rows).height == 3
