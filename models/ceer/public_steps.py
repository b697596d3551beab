"""What others timed of steps on k devices (IV-A, IV-C)."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from models.ceer import overhead
from models.ceer.public_rows import NONE, Key, nothing, parts, readable
from warehouse.records import BadInput

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
    added: Mapping[Key, overhead.Overhead]

    def predict(self, subjects: pl.DataFrame) -> pl.DataFrame:
        """Return subject_id, value (samples/s), low and high (NULL) of steps known on one device.

        Args:
            subjects: subject_id and the columns that `fit_steps` is given, without value.
        """
        rows = subjects.join(self.alone_s, on=[*_SETUP, "mode", "dnn", "batch_size"])
        found = []
        for key, part in parts(rows, (*_SETUP, "world_size")):
            if key not in self.added:
                continue
            one = self.added[key]
            added_s = pl.Series(
                [one.predict_s(_parameters(row["dnn"]), row["alone_s"]) for row in part.to_dicts()]
            ).clip(lower_bound=0.0)
            rate = pl.col("batch_size") * pl.col("world_size") / (pl.col("alone_s") + added_s)
            found.append(part.select("subject_id", value=rate, low=NONE, high=NONE))
        return pl.concat(found) if found else nothing(subjects)

    def parameters_json(self) -> str:
        """Return the lines by setup, and the steps of one device."""
        return json.dumps(
            {"added": readable(self.added), "alone_s": self.alone_s.to_dicts()}, sort_keys=True
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
    for part_key, part in parts(several, (*_SETUP, "world_size")):
        (added[part_key],) = overhead.fit(part, forms="paper", relative=True)
    return PublicSteps(alone, added)


def _parameters(dnn: str) -> int:
    if dnn not in PARAMETERS:
        raise BadInput(f"{dnn}: how many parameters it has is not written down in PARAMETERS")
    return PARAMETERS[dnn]
