"""What a round knows of scenarios beyond verdicts: forecasts nobody judged, and when all were made.

A run judges forecasts of its own round. Where a later round did not profile a scenario again, it
has no forecast of its own, and the one of an earlier round stands.
"""

from typing import Literal

import polars as pl

from forecasting.results import standing
from studies.rounds import Round
from warehouse.warehouse import Warehouse

Made = Literal["sealed", "before", "after"]
"""Published before the measurement; made before its run began; made later, from profiles alone."""
STANDING = {"forecast_round": pl.Int32, "made": pl.String}
"""Columns that `filled` adds: the round whose forecast is shown, and `Made` of judged ones."""


def filled(round_: Round, rows: pl.DataFrame, warehouse: Warehouse) -> pl.DataFrame:
    """Return rows of `forecasting.results.outcome` with what no verdict tells, and `STANDING`.

    Without a verdict, predicted, low, high and linear are those of the newest forecast of this
    round or of one before it; measured is what this round measured. Such rows have no error.
    """
    name, repeat = round_.study.name, round_.repeat
    with warehouse.reading():
        ledger = warehouse.query("predictions", study=name, repeat=None)
        measured = warehouse.query("measured", study=name, repeat=repeat)
        sealed = warehouse.query("published", study=name)
    return made(told(round_, rows, standing(round_, ledger), _of(round_, measured)), sealed)


def told(
    round_: Round, rows: pl.DataFrame, newest: pl.DataFrame, measured: pl.DataFrame
) -> pl.DataFrame:
    """Return rows with forecasts and measurements that no verdict has, and started_at of runs.

    Args:
        round_: whose rows they are.
        rows: of `forecasting.results.outcome`.
        newest: of `forecasting.results.standing`.
        measured: scenario_id, value and started_at, one row a scenario.
    """
    known = newest.rename({name: f"{name}_standing" for name in newest.columns[1:]})
    joined = rows.join(known, on="scenario_id", how="left", maintain_order="left").join(
        measured, on="scenario_id", how="left", maintain_order="left"
    )
    judged = pl.col("predicted").is_not_null()
    instead = {
        name: pl.when(judged).then(pl.col(name)).otherwise(pl.col(f"{name}_standing"))
        for name in ("predicted", "low", "high", "system", "made_at")
    }
    return joined.select(
        *(pl.col(name) for name in rows.columns if name not in {*instead, "linear", "measured"}),
        **instead,
        linear=pl.coalesce("linear", "linear_standing"),
        measured=pl.coalesce("measured", "value"),
        forecast_round=pl.when(judged)
        .then(pl.lit(round_.repeat, pl.Int32))
        .otherwise("forecast_round_standing"),
        started_at="started_at",
    )


def made(rows: pl.DataFrame, sealed: pl.DataFrame) -> pl.DataFrame:
    """Return rows with when each judged forecast was made; NULL where nothing was judged.

    Args:
        rows: of `told`.
        sealed: prediction_id of what was published before it was measured.
    """
    when = (
        pl.when(pl.col("prediction_id").is_in(sealed["prediction_id"].to_list()))
        .then(pl.lit("sealed"))
        .when(pl.col("made_at") < pl.col("started_at"))
        .then(pl.lit("before"))
        .otherwise(pl.lit("after"))
    )
    judged = pl.col("error_percent").is_not_null()
    return rows.with_columns(made=pl.when(judged).then(when)).drop("started_at")


def _of(round_: Round, measured: pl.DataFrame) -> pl.DataFrame:
    """Return the value and the first start of each scenario's runs in a round."""
    ours = measured.filter(
        pl.col("backend") == round_.backend,
        pl.col("host_id") == round_.host_id,
        pl.col("metric").is_in(list(round_.study.metrics)),
    )
    return ours.group_by("scenario_id").agg(pl.col("value").mean(), pl.col("started_at").min())
