"""What others timed of layers, sums of operations and steps on k devices (IV-A to IV-C)."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from models.ceer import overhead, regression
from models.ceer.features import NAMES, megabytes, multiplications, product_work
from models.ceer.regression import FORMS, Regression
from warehouse.records import BadInput, Record

# Rows of what others timed: taken apart by what has a fit of its own, and put into words.


Key = tuple[str, ...]
NONE = pl.lit(None, pl.Float64)


def split_rows(rows: pl.DataFrame, by: Sequence[str]) -> list[tuple[Key, pl.DataFrame]]:
    """Return the rows of each combination of the columns `by`, and the combination."""
    parts = rows.sort(by, maintain_order=True).partition_by(by, maintain_order=True, as_dict=True)
    return [(tuple(map(str, key)), part) for key, part in parts.items()]


def readable_parameters(fitted: Mapping[Key, Record]) -> dict[str, Any]:
    """Return records as JSON takes them, by their key in words."""
    return {" ".join(key): json.loads(record.canonical_json()) for key, record in fitted.items()}


def empty_forecasts(subjects: pl.DataFrame) -> pl.DataFrame:
    """Return what is forecast where nothing is."""
    return subjects.select("subject_id", value=NONE, low=NONE, high=NONE).clear()


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


class ResidualTrees(Record):
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


class LayerModel(Record):
    """How long a kind of layer takes on a device."""

    regression: Regression
    trees: ResidualTrees | None = None

    def predict_s(self, rows: pl.DataFrame) -> Array:
        """Return the seconds of layers, rows with the columns `NAMES`."""
        seconds: Array = self.regression.predict_us(_sizes(rows)) / 1e6
        return seconds if self.trees is None else seconds * self.trees.factor(rows)


@dataclass(frozen=True)
class PublicLayers:
    """A model for each device, kind of layer, and forward pass or whole training step."""

    models: Mapping[Key, LayerModel]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of layers on known devices.

        Args:
            subjects: subject_id and the columns that `fit_layers` is given, without value.
        """
        forecasts = []
        for key, rows in split_rows(_layers(subjects), _KEY):
            if key in self.models:
                seconds = pl.Series(self.models[key].predict_s(rows))
                forecasts.append(rows.select("subject_id", value=seconds, low=NONE, high=NONE))
        return pl.concat(forecasts) if forecasts else empty_forecasts(subjects)

    def parameters_json(self) -> str:
        """Return the models, by device, layer and mode."""
        return json.dumps(readable_parameters(self.models), sort_keys=True)


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
        return PublicLayers({key: model(key, part) for key, part in split_rows(points, _KEY)})

    return fitted


def _of_the_paper(key: Key, points: pl.DataFrame) -> LayerModel:
    return LayerModel(regression=_regression(key, points, "paper"))


def _own(key: Key, points: pl.DataFrame) -> LayerModel:
    import xgboost

    forms = {form: terms for form, terms in FORMS["own"].items() if 2 * len(terms) <= points.height}
    errors = {form: _error_of_larger(key, points, {form: terms}) for form, terms in forms.items()}
    enough = min(errors.values()) * (1 + _PREFERENCE) + _EXACT
    best = next(form for form, error in errors.items() if error <= enough)
    base = _regression(key, points, {best: forms[best]})
    numbers = tuple(name for name in _NUMBERS if name in points.columns)
    known_words = {
        name: tuple(points[name].drop_nulls().unique().sort())
        for name in _WORDS
        if name in points.columns
    }
    words = {name: known for name, known in known_words.items() if known}
    ratio = points["mean_us"].to_numpy() / np.maximum(base.predict_us(_sizes(points)), 1e-3)
    seen = xgboost.DMatrix(_numbers(points, numbers, words), np.log(ratio), nthread=1)
    booster = xgboost.train(_TREES, seen, _ROUNDS).save_raw("ubj")
    trees = ResidualTrees(numbers=numbers, words=words, booster=base64.b64encode(booster).decode())
    return LayerModel(regression=base, trees=trees)


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
    features: Array = rows.select(pl.col(numbers).cast(pl.Float64), *places).to_numpy()
    return features


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
        return *(megabytes(None, [shape]) for shape in (left, right, product)), 0.0, 0.0, work, work
    stride, size, side = row["stride"], row["kernel_size"], row["image_size"]
    same = bool(row["padding"])
    moved_side = -(-side // stride) if same else max(side - size, 0) // stride + 1
    before = max((moved_side - 1) * stride + size - side, 0) // 2 if same else 0
    image = row["batch_size"], side, side, row["channels_in"]
    kernel = size, size, row["channels_in"], row["channels_out"]
    moved = row["batch_size"], moved_side, moved_side, row["channels_out"]
    work, inside = multiplications(image, kernel, moved, (stride, stride), (before, before))
    sizes = (megabytes(None, [shape]) for shape in (image, kernel, moved))
    return *sizes, float(stride**2), float(same), work, inside


# What others timed of steps on k devices (IV-A, IV-C).


_SETUP = ("node_type", "dataset", "variable_update", "precision", "distortions")

PARAMETERS: Mapping[str, int] = {
    "inception3": 23_851_784,
    "inception4": 42_679_816,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
}
"""Trained parameters of the networks that tf_cnn_benchmarks calls so, with 1000 classes."""


@dataclass(frozen=True)
class PublicSteps:
    """Steps of one device, and what more of them add to each: S_k − S_1, linear in parameters.

    No device makes the others faster: where the line is below 0, nothing is added.
    """

    alone_s: pl.DataFrame
    added: Mapping[Key, overhead.DeviceOverhead]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (samples/s), low and high (NULL) of steps known on one device.

        Args:
            subjects: subject_id and the columns that `fit_steps` is given, without value.
        """
        rows = subjects.join(self.alone_s, on=[*_SETUP, "mode", "dnn", "batch_size"])
        forecasts = []
        for key, part in split_rows(rows, (*_SETUP, "world_size")):
            if key not in self.added:
                continue
            added = self.added[key]
            added_s = pl.Series(
                [
                    added.predict_s(_parameters(row["dnn"]), row["alone_s"])
                    for row in part.to_dicts()
                ]
            ).clip(lower_bound=0.0)
            rate = pl.col("batch_size") * pl.col("world_size") / (pl.col("alone_s") + added_s)
            forecasts.append(part.select("subject_id", value=rate, low=NONE, high=NONE))
        return pl.concat(forecasts) if forecasts else empty_forecasts(subjects)

    def parameters_json(self) -> str:
        """Return the lines by setup, and the steps of one device."""
        return json.dumps(
            {"added": readable_parameters(self.added), "alone_s": self.alone_s.to_dicts()},
            sort_keys=True,
        )


def fit_steps(rows: pl.DataFrame) -> PublicSteps:
    """Fit S_k − S_1 = T_k − T_1 at the same batch per device, for each setup and k.

    Args:
        rows: value (samples/s of all devices), node_type, dataset, variable_update, precision,
            distortions, mode, dnn, batch_size (per device) and world_size.
    """
    seconds = pl.col("batch_size") * pl.col("world_size") / pl.col("value")
    key = [*_SETUP, "mode", "dnn", "batch_size"]
    means = rows.group_by(*key, "world_size").agg(step_s=seconds.mean()).sort(pl.all())
    alone = means.filter(world_size=1).drop("world_size").rename({"step_s": "alone_s"})
    several = (
        means.filter(pl.col("world_size") > 1)
        .join(alone, on=key)
        .with_columns(
            pl.col("dnn")
            .replace_strict(PARAMETERS, return_dtype=pl.Int64)
            .alias("parameter_count"),
            devices=pl.col("world_size"),
            link_mbps=pl.lit(None, pl.Float64),
            operations_s=pl.col("alone_s"),
            overhead_s=pl.col("step_s") - pl.col("alone_s"),
        )
    )
    added = {}
    for part_key, part in split_rows(several, (*_SETUP, "world_size")):
        (added[part_key],) = overhead.fit(part, forms="paper", relative=True)
    return PublicSteps(alone, added)


def _parameters(dnn: str) -> int:
    if dnn not in PARAMETERS:
        raise BadInput(f"{dnn}: how many parameters it has is not written down in PARAMETERS")
    return PARAMETERS[dnn]


# Steps on GPUs that others timed, from sums of operations: do these hold, and with which S?
#
# Ceer's step is the sum of its operations, and S beside it. Here the operations are as they were
# timed; what is forecast are steps of a family of networks that S was not fitted to.
#
# Source: Hafeez, Gandhi, Ceer, sections IV-A and IV-C.


Floats = NDArray[np.float64]
Beside = Literal["nothing", "parameters", "launches"]
PARAMETERS_OF_SUMS: Mapping[str, int] = {
    "bert": 109_482_240,
    "bert_large": 335_141_888,
    "gpt2_med": 354_823_168,
    "gpt2_large": 774_030_080,
    "gpt2_xl": 1_557_611_200,
    "opt_13": 1_315_758_080,
}
"""Trained parameters of the networks, as their publishers count them."""


@dataclass(frozen=True)
class PublicSums:
    """A sum of operations, and S of each device: weights of the terms that `beside` has.

    Attributes:
        beside: `empty_forecasts`: S is 0; `parameters`: a constant and so much for each parameter,
            as published; `launches`: so much for each operation, by which timing alone is longer.
        weights: seconds of each term, by device.
    """

    beside: Beside
    weights: Mapping[str, tuple[float, ...]]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of subjects on known devices.

        Args:
            subjects: subject_id and the columns that `fit_sums` is given, without value.
        """
        known = subjects.filter(pl.col("node_type").is_in(list(self.weights)))
        if self.beside == "parameters":
            known = known.filter(pl.col("dnn").is_in(list(PARAMETERS_OF_SUMS)))
        if known.is_empty():
            return empty_forecasts(subjects)
        sums, terms = _sum_s(known), _terms(known, self.beside)
        weights = np.array([self.weights[name] for name in known["node_type"]])
        forecast_s = np.maximum(sums + (terms * weights).sum(axis=1), 1e-6)
        return known.select("subject_id", value=pl.Series(forecast_s), low=NONE, high=NONE)

    def parameters_json(self) -> str:
        """Return what stands beside sums, and the weights by device."""
        return json.dumps({"beside": self.beside, "weights": self.weights}, sort_keys=True)


def fit_sums(beside: Beside) -> Callable[[pl.DataFrame], PublicSums]:
    """Return what fits S to steps, by relative error.

    The rows have value (seconds of a step), node_type, dnn, operations, forward_s, backward_s (NULL
    for inference) and bookkeeping_s.
    """

    def fit(rows: pl.DataFrame) -> PublicSums:
        if beside == "parameters":
            rows = rows.filter(pl.col("dnn").is_in(list(PARAMETERS_OF_SUMS)))
        devices = rows.partition_by("node_type", as_dict=True)
        if not devices:
            raise BadInput("expected timed steps of networks whose parameters are known; none here")
        return PublicSums(
            beside, {str(name): _weights(part, beside) for (name,), part in devices.items()}
        )

    return fit


def _weights(rows: pl.DataFrame, beside: Beside) -> tuple[float, ...]:
    measured_s = rows["value"].to_numpy()
    terms = _terms(rows, beside) / measured_s[:, None]
    weights, *_ = np.linalg.lstsq(terms, 1 - _sum_s(rows) / measured_s, rcond=None)
    return tuple(weights.tolist())


def _terms(rows: pl.DataFrame, beside: Beside) -> Floats:
    """Return what S is made of: [steps, terms]; parameters in billions, launches in thousands."""
    if beside == "nothing":
        return np.zeros((len(rows), 0))
    if beside == "launches":
        return rows.select(pl.col("operations").cast(pl.Float64) / 1e3).to_numpy()
    counts = rows["dnn"].replace_strict(PARAMETERS_OF_SUMS, return_dtype=pl.Float64)
    return np.column_stack([np.ones(len(rows)), counts.to_numpy() / 1e9])


def _sum_s(rows: pl.DataFrame) -> Floats:
    """Return seconds of the operations of steps, bookkeeping of the profiler left out."""
    total = (
        pl.col("forward_s")
        + pl.col("backward_s").cast(pl.Float64).fill_null(0.0)
        - pl.col("bookkeeping_s")
    )
    return rows.select(total).to_series().to_numpy()
