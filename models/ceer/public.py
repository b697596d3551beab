"""What others timed: layers of random shapes (IV-B), and steps on k devices (IV-A, IV-C)."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import polars as pl

from models.ceer import overhead, regression
from models.ceer.features import NAMES
from models.ceer.sizes import megabytes, multiplications, product_work
from warehouse.records import BadInput, Record

Key = tuple[str, ...]
_LAYER = ("node_type", "operation", "mode")
_SETUP = ("node_type", "dataset", "variable_update", "precision", "distortions")
_NONE = pl.lit(None, pl.Float64)

PARAMETERS: Mapping[str, int] = {
    "inception3": 23_851_784,
    "inception4": 42_679_816,
    "resnet50": 25_557_032,
    "vgg16": 138_357_544,
}
"""Trained parameters of the networks that tf_cnn_benchmarks calls so, with 1000 classes."""


@dataclass(frozen=True)
class PublicLayers:
    """A regression for each device, kind of layer, and forward pass or whole training step."""

    regressions: Mapping[Key, regression.Regression]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (seconds), low and high (NULL) of layers on known devices.

        Args:
            subjects: subject_id and the columns that `fit_layers` is given, without value.
        """
        found = []
        for key, rows in _parts(_layers(subjects), _LAYER):
            if key in self.regressions:
                features = {name: rows[name].to_numpy() for name in NAMES}
                seconds = pl.Series(self.regressions[key].predict_us(features) / 1e6)
                found.append(rows.select("subject_id", value=seconds, low=_NONE, high=_NONE))
        return pl.concat(found) if found else _nothing(subjects)

    def parameters_json(self) -> str:
        """Return the regressions, by device, layer and mode."""
        return json.dumps(_readable(self.regressions), sort_keys=True)


def fit_layers(forms: Literal["paper", "own"]) -> Callable[[pl.DataFrame], PublicLayers]:
    """Return what fits a layer's time to its sizes, on each device and for each mode.

    It is given value (seconds), operation, node_type, optimizer (none: forward only), batch_size
    and, of Conv2D, image_size, channels_in, channels_out, kernel_size, stride and padding; of
    MatMul, size_in and size_out.
    """

    def fitted(rows: pl.DataFrame) -> PublicLayers:
        points = _layers(rows).with_columns(
            mean_us=pl.col("value") * 1e6, count=pl.lit(1), dnn=pl.lit("layer")
        )
        return PublicLayers(
            {
                key: regression.fit(
                    part,
                    operation_type=" ".join(key[1:]),
                    node_type=key[0],
                    forms=forms,
                    weights="equal" if forms == "paper" else "balanced",
                )
                for key, part in _parts(points, _LAYER)
            }
        )

    return fitted


@dataclass(frozen=True)
class PublicSteps:
    """Steps of one device, and what more of them add to each: S_k − S_1, linear in parameters.

    No device makes the others faster: where the line is below 0, nothing is added.
    """

    alone_s: pl.DataFrame
    added: Mapping[Key, overhead.Overhead]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (samples/s), low and high (NULL) of steps known on one device.

        Args:
            subjects: subject_id and the columns that `fit_steps` is given, without value.
        """
        rows = subjects.join(self.alone_s, on=[*_SETUP, "mode", "dnn", "batch_size"])
        found = []
        for key, part in _parts(rows, (*_SETUP, "world_size")):
            if key not in self.added:
                continue
            one = self.added[key]
            added_s = pl.Series(
                [one.predict_s(_parameters(row["dnn"]), row["alone_s"]) for row in part.to_dicts()]
            ).clip(lower_bound=0.0)
            rate = pl.col("batch_size") * pl.col("world_size") / (pl.col("alone_s") + added_s)
            found.append(part.select("subject_id", value=rate, low=_NONE, high=_NONE))
        return pl.concat(found) if found else _nothing(subjects)

    def parameters_json(self) -> str:
        """Return the lines by setup, and the steps of one device."""
        return json.dumps(
            {"added": _readable(self.added), "alone_s": self.alone_s.to_dicts()}, sort_keys=True
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
    for part_key, part in _parts(several, (*_SETUP, "world_size")):
        (added[part_key],) = overhead.fit(part, overlap=False, relative=True)
    return PublicSteps(alone, added)


def _readable(fitted: Mapping[Key, Record]) -> dict[str, Any]:
    return {" ".join(key): json.loads(one.canonical_json()) for key, one in fitted.items()}


def _parts(rows: pl.DataFrame, by: Sequence[str]) -> list[tuple[Key, pl.DataFrame]]:
    parts = rows.sort(by, maintain_order=True).partition_by(by, maintain_order=True, as_dict=True)
    return [(tuple(map(str, key)), part) for key, part in parts.items()]


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


def _parameters(dnn: str) -> int:
    if dnn not in PARAMETERS:
        raise BadInput(f"{dnn}: how many parameters it has is not written down in PARAMETERS")
    return PARAMETERS[dnn]


def _nothing(subjects: pl.DataFrame) -> pl.DataFrame:
    return subjects.select("subject_id", value=_NONE, low=_NONE, high=_NONE).clear()
