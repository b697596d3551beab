"""What others timed of layers of random shapes (IV-B), on each device."""

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer import regression
from models.ceer.features import NAMES
from models.ceer.public_rows import NONE, Key, nothing, parts, readable
from models.ceer.regression import FORMS, Regression
from models.ceer.sizes import megabytes, multiplications, product_work
from warehouse.records import Record

Array = NDArray[np.float64]
_KEY = ("node_type", "operation", "mode")
_NUMBERS = (
    *("batch_size", "image_size", "kernel_size", "stride", "padding"),
    *("channels_in", "channels_out", "size_in", "size_out"),
    *NAMES,
)
_WORDS = ("optimizer", "activation")
_TREES = {
    "objective": "reg:absoluteerror",
    "max_depth": 8,
    "learning_rate": 0.1,
    "tree_method": "hist",
    "nthread": 1,
    "seed": 0,
}
_ROUNDS = 300
_PREFERENCE, _EXACT = 0.05, 1e-6
"""A simpler form is taken if no later one errs less by more than this."""
_LARGE = 0.8
"""Layers above this quantile of work tell which form of a regression holds for larger ones."""


class Trees(Record):
    """What sums of sizes do not say: boosted trees for the logarithm of time over a regression's.

    They see `numbers`, and the place of each word of a layer among `words`. `booster` is XGBoost's
    own UBJSON in base64. Beyond the sizes they were fitted to they go on as at the edge.
    """

    numbers: tuple[str, ...]
    words: Mapping[str, tuple[str, ...]]
    booster: str

    def factor(self, rows: pl.DataFrame) -> Array:
        """Return what the regression's times of layers are multiplied by."""
        import xgboost  # takes a second to load

        booster = xgboost.Booster({"nthread": 1})
        booster.load_model(bytearray(base64.b64decode(self.booster)))
        numbers = _numbers(rows, self.numbers, self.words)
        raw = booster.predict(xgboost.DMatrix(numbers, nthread=1))
        factor: Array = np.exp(raw.astype(np.float64))
        return factor


class Layer(Record):
    """How long a kind of layer takes on a device."""

    regression: Regression
    trees: Trees | None = None

    def predict_s(self, rows: pl.DataFrame) -> Array:
        """Return the seconds of layers, rows with the columns `NAMES`."""
        seconds: Array = self.regression.predict_us(_sizes(rows)) / 1e6
        return seconds if self.trees is None else seconds * self.trees.factor(rows)


@dataclass(frozen=True)
class PublicLayers:
    """A model for each device, kind of layer, and forward pass or whole training step."""

    models: Mapping[Key, Layer]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of layers on known devices.

        Args:
            subjects: subject_id and the columns that `fit_layers` is given, without value.
        """
        found = []
        for key, rows in parts(_layers(subjects), _KEY):
            if key in self.models:
                seconds = pl.Series(self.models[key].predict_s(rows))
                found.append(rows.select("subject_id", value=seconds, low=NONE, high=NONE))
        return pl.concat(found) if found else nothing(subjects)

    def parameters_json(self) -> str:
        """Return the models, by device, layer and mode."""
        return json.dumps(readable(self.models), sort_keys=True)


def fit_layers(how: Literal["paper", "own"]) -> Callable[[pl.DataFrame], PublicLayers]:
    """Return what fits a layer's time to its sizes, on each device and for each mode.

    As in the paper, or ours: the form of regression that holds best for larger layers than it was
    fitted to, and trees for what is left.

    It is given value (seconds), operation, node_type, optimizer (none: forward only), batch_size
    and, of Conv2D, image_size, channels_in, channels_out, kernel_size, stride and padding; of
    MatMul, size_in and size_out.
    """
    model = _of_the_paper if how == "paper" else _own

    def fitted(rows: pl.DataFrame) -> PublicLayers:
        points = _layers(rows).with_columns(
            mean_us=pl.col("value") * 1e6, count=pl.lit(1), dnn=pl.lit("layer")
        )
        return PublicLayers({key: model(key, part) for key, part in parts(points, _KEY)})

    return fitted


def _of_the_paper(key: Key, points: pl.DataFrame) -> Layer:
    return Layer(regression=_regression(key, points, "paper"))


def _own(key: Key, points: pl.DataFrame) -> Layer:
    import xgboost

    forms = {form: terms for form, terms in FORMS["own"].items() if 2 * len(terms) <= points.height}
    errors = {form: _error_of_larger(key, points, {form: terms}) for form, terms in forms.items()}
    enough = min(errors.values()) * (1 + _PREFERENCE) + _EXACT
    best = next(form for form, error in errors.items() if error <= enough)
    base = _regression(key, points, {best: forms[best]})
    numbers = tuple(name for name in _NUMBERS if name in points.columns)
    found = {
        name: tuple(points[name].drop_nulls().unique().sort())
        for name in _WORDS
        if name in points.columns
    }
    words = {name: known for name, known in found.items() if known}
    ratio = points["mean_us"].to_numpy() / np.maximum(base.predict_us(_sizes(points)), 1e-3)
    seen = xgboost.DMatrix(_numbers(points, numbers, words), np.log(ratio), nthread=1)
    booster = xgboost.train(_TREES, seen, _ROUNDS).save_raw("ubj")
    trees = Trees(numbers=numbers, words=words, booster=base64.b64encode(booster).decode())
    return Layer(regression=base, trees=trees)


def _error_of_larger(key: Key, points: pl.DataFrame, form: regression.Forms) -> float:
    """Return the mean relative error of a form on the largest layers, fitted to the others."""
    large = points["work"] > points["work"].quantile(_LARGE)
    smaller, larger = points.filter(~large), points.filter(large)
    if smaller.is_empty() or larger.is_empty():
        return 0.0
    predicted_us = _regression(key, smaller, form).predict_us(_sizes(larger))
    return float(np.abs(predicted_us / larger["mean_us"].to_numpy() - 1).mean())


def _regression(
    key: Key, points: pl.DataFrame, forms: Literal["paper"] | regression.Forms
) -> Regression:
    return regression.fit(
        points,
        operation_type=" ".join(key[1:]),
        node_type=key[0],
        forms=forms,
        weights="equal" if forms == "paper" else "balanced",
    )


def _sizes(rows: pl.DataFrame) -> dict[str, Array]:
    return {name: rows[name].to_numpy() for name in NAMES}


def _numbers(
    rows: pl.DataFrame, numbers: tuple[str, ...], words: Mapping[str, tuple[str, ...]]
) -> Array:
    """Return [rows, features]; what is not known is NaN."""
    places = [
        pl.col(name)
        .replace_strict({word: place for place, word in enumerate(known)}, default=None)
        .cast(pl.Float64)
        for name, known in words.items()
    ]
    found: Array = rows.select(pl.col(numbers).cast(pl.Float64), *places).to_numpy()
    return found


def _layers(rows: pl.DataFrame) -> pl.DataFrame:
    """Return rows with `mode` and the columns `NAMES`."""
    mode = (
        pl.when(pl.col("optimizer").is_null()).then(pl.lit("forward")).otherwise(pl.lit("training"))
    )
    features = pl.DataFrame(
        [_features(row) for row in rows.to_dicts()],
        schema=dict.fromkeys(NAMES, pl.Float64),
        orient="row",
    )
    return rows.with_columns(features.get_columns()).with_columns(mode=mode)


def _features(row: Mapping[str, Any]) -> tuple[float, ...]:
    if row["operation"] == "MatMul":
        left, right = (row["batch_size"], row["size_in"]), (row["size_in"], row["size_out"])
        product = row["batch_size"], row["size_out"]
        work = product_work(left, right, product)
        return *(megabytes(None, [one]) for one in (left, right, product)), 0.0, 0.0, work, work
    stride, size, side = row["stride"], row["kernel_size"], row["image_size"]
    same = bool(row["padding"])
    moved_side = -(-side // stride) if same else max(side - size, 0) // stride + 1
    before = max((moved_side - 1) * stride + size - side, 0) // 2 if same else 0
    image = row["batch_size"], side, side, row["channels_in"]
    kernel = size, size, row["channels_in"], row["channels_out"]
    moved = row["batch_size"], moved_side, moved_side, row["channels_out"]
    work, inside = multiplications(image, kernel, moved, (stride, stride), (before, before))
    sizes = (megabytes(None, [one]) for one in (image, kernel, moved))
    return *sizes, float(stride**2), float(same), work, inside
