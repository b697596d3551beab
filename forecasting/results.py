"""How a round's predictions did: one row per scenario, and the figures over all of them."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from forecasting.inputs import baselines, primary_systems
from studies.curve import Curve
from studies.rounds import Round
from studies.study import Study
from warehouse.records import Backend

JUDGED = {
    "predicted": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "measured": pl.Float64,
    "error_percent": pl.Float64,
    "spread_percent": pl.Float64,
    "split": pl.String,
    "host_busy": pl.Boolean,
    "noise_floor_percent": pl.Float64,
    "noise_runs": pl.Int64,
}
"""Columns of report.accuracy that are taken over, for the system that is judged."""
ORIGIN: dict[str, pl.DataType] = {
    "system": pl.String(),
    "prediction_id": pl.String(),
    "made_at": pl.Datetime("us", "UTC"),
}
"""Which forecast is judged: its system, its row in the ledger, and when it was made."""


@dataclass(frozen=True)
class Summary:
    """Mean absolute errors, percent, over the `n` judged scenarios that count (`headline_filter`).

    `several`: those with W of 2 or more; else all. `busy_n` more were measured while the host was
    busy, and do not count. `noise_floor` is the mean over the `noise_n` of them that were measured
    in two rounds or more, None if none was.
    """

    n: int
    busy_n: int
    error: float | None
    linear_error: float | None
    noise_floor: float | None
    noise_n: int
    several: bool = True


def outcome(round_: Round, accuracy: pl.DataFrame) -> pl.DataFrame:
    """Return one row per scenario of a round, by curve and W; NULL where nothing was judged.

    Columns: curve (index), its title, label, dnn, link_mbps, workers, scenario_id, those of
    `JUDGED` and `ORIGIN`, and linear, linear_error_percent: the baseline's forecast and its error.
    """
    rows = of_round(round_, accuracy)
    judged = _of_system(rows, *primary_systems(round_.study)).select(
        "scenario_id", *JUDGED, *ORIGIN
    )
    baseline = _of_system(rows, *baselines()).select(
        "scenario_id", linear="predicted", linear_error_percent="error_percent"
    )
    return (
        _scenarios(round_)
        .join(judged, on="scenario_id", how="left", maintain_order="left")
        .join(baseline, on="scenario_id", how="left", maintain_order="left")
        .cast(pl.Schema({**JUDGED, "linear": pl.Float64, "linear_error_percent": pl.Float64}))
        .cast(pl.Schema(ORIGIN))
    )


def latest_forecasts(round_: Round, ledger: pl.DataFrame) -> pl.DataFrame:
    """Return the newest forecast of each scenario, of a round or of one before it.

    `ledger` has rows of all rounds. Columns: scenario_id, system, predicted, low, high, made_at,
    forecast_round, and linear: the baseline's.
    """
    rows = (
        of_place(round_, ledger)
        .filter(pl.col("study") == round_.study.name, pl.col("repeat") <= round_.repeat)
        .rename({"subject_id": "scenario_id", "value": "predicted"})
    )
    named = ("scenario_id", "system", "predicted", "low", "high", "made_at")
    baseline = _of_system(rows, *baselines()).select("scenario_id", linear="predicted")
    return (
        _of_system(rows, *primary_systems(round_.study))
        .select(*named, forecast_round=pl.col("repeat").cast(pl.Int32))
        .join(baseline, on="scenario_id", how="full", coalesce=True)
    )


def forecasts(round_: Round, ledger: pl.DataFrame, system: str = "async_sgd") -> pl.DataFrame:
    """Return what a system forecasts for a round, in the columns of `outcome` that are known.

    Columns: curve, title, label, dnn, link_mbps, workers, scenario_id, predicted, low, high and
    linear.
    """
    rows = of_place(round_, ledger).rename({"subject_id": "scenario_id", "value": "predicted"})
    predicted = _of_system(rows, system).select("scenario_id", "predicted", "low", "high")
    baseline = _of_system(rows, *baselines()).select("scenario_id", linear="predicted")
    return (
        _scenarios(round_)
        .join(predicted, on="scenario_id", how="left", maintain_order="left")
        .join(baseline, on="scenario_id", how="left", maintain_order="left")
    )


def scaling(rows: pl.DataFrame) -> list[pl.DataFrame]:
    """Return the rows of each curve that has several numbers of workers."""
    curves = rows.partition_by("curve", maintain_order=True)
    return [curve for curve in curves if curve["workers"].n_unique() > 1]


def by_system(round_: Round, accuracy: pl.DataFrame) -> pl.DataFrame:
    """Return how wrong each system was in a round, one row per system and network.

    What was measured while the host was busy does not count.

    Columns: system, dnn (NULL: all of them), w1_error_percent (mean error of scenarios with one
    worker, beside others with more), and of those that count: n and mean_ape_percent. Systems with
    the smallest error over all networks come first.
    """
    scenarios = _scenarios(round_)
    rows = of_round(round_, accuracy).sort("made_at")
    newest = rows.unique(["system", "scenario_id"], keep="last").join(
        scenarios.select("scenario_id", "dnn", "workers"), on="scenario_id"
    )
    counting = headline_filter(scenarios)
    error = pl.when(~pl.col("host_busy")).then(pl.col("error_percent"))
    figures = (
        error.filter(~counting).mean().alias("w1_error_percent"),
        error.filter(counting).count().alias("n"),
        error.filter(counting).abs().mean().alias("mean_ape_percent"),
    )
    whole = newest.group_by("system").agg(*figures).with_columns(dnn=pl.lit(None, pl.String))
    parts = newest.group_by("system", "dnn").agg(*figures)
    order = whole.sort("mean_ape_percent", "system", nulls_last=True)["system"]
    place = pl.col("system").replace_strict(order, range(len(order)), return_dtype=pl.Int32)
    return (
        pl.concat([whole, parts], how="diagonal")
        .select("system", "dnn", "w1_error_percent", "n", "mean_ape_percent")
        .sort(place, "dnn", nulls_last=True)
    )


def has_several(rows: pl.DataFrame) -> bool:
    """Tell whether some of the scenarios of a round have several workers."""
    return rows.filter(pl.col("workers") > 1).height > 0


def headline_filter(rows: pl.DataFrame) -> pl.Expr:
    """Return which scenarios of a round headline figures are of: those with several workers.

    One worker is what most systems profile. A round that has one worker only, such as of networks
    on one GPU, counts whole.
    """
    return pl.col("workers") > (1 if has_several(rows) else 0)


def summary(rows: pl.DataFrame) -> Summary:
    """Return the figures over the scenarios that count."""
    judged = rows.filter(headline_filter(rows), pl.col("error_percent").is_not_null())
    many = judged.filter(~pl.col("host_busy"))
    floors = many["noise_floor_percent"].drop_nulls()
    return Summary(
        n=many.height,
        busy_n=judged.height - many.height,
        error=_mean(many["error_percent"].abs()),
        linear_error=_mean(many["linear_error_percent"].abs()),
        noise_floor=_mean(floors),
        noise_n=len(floors),
        several=has_several(rows),
    )


def unjudged_labels(round_: Round, accuracy: pl.DataFrame) -> list[str]:
    """Return the labels of the scenarios of a round that judge no system's forecast."""
    judged = of_round(round_, accuracy)["scenario_id"].unique().implode()
    return _scenarios(round_).filter(~pl.col("scenario_id").is_in(judged))["label"].to_list()


def titles(study: Study, backend: Backend) -> list[str]:
    """Return what the scenarios of each curve have in common; node types if need be."""
    labels = [curve.scenario(max(curve.workers), backend).label for curve in study.curves]
    bare = [label.rpartition(", W=") for label in labels]
    alike = Counter(title for title, _, _ in bare)
    return [
        title if alike[title] == 1 else f"{title}, {_on(curve, rest)}"
        for curve, (title, _, rest) in zip(study.curves, bare, strict=True)
    ]


def _on(curve: Curve, of_most: str) -> str:
    """Return the node types of a curve; of a mix with their numbers, as the label has them."""
    return of_most.partition("(")[2].rstrip(")") if curve.mix else " + ".join(curve.worker)


def _scenarios(round_: Round) -> pl.DataFrame:
    named = titles(round_.study, round_.backend)
    rows = [
        (
            index,
            named[index],
            scenario.label,
            scenario.workload.dnn,
            scenario.link_mbps,
            scenario.strategy.workers,
            scenario.scenario_id,
        )
        for index, curve in enumerate(round_.study.curves)
        if curve.is_judged
        for scenario in curve.scenarios(round_.backend)
    ]
    schema = {
        "curve": pl.Int32,
        "title": pl.String,
        "label": pl.String,
        "dnn": pl.String,
        "link_mbps": pl.Float64,
        "workers": pl.Int32,
        "scenario_id": pl.String,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def of_round(round_: Round, accuracy: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of report.accuracy that are of a round, by metrics of its study."""
    return of_place(round_, accuracy).filter(
        pl.col("study") == round_.study.name, pl.col("repeat") == round_.repeat
    )


def of_place(round_: Round, accuracy: pl.DataFrame) -> pl.DataFrame:
    """Return rows of any study, of accuracy or the like, where and by what a round is measured."""
    return accuracy.filter(
        pl.col("backend") == round_.backend,
        pl.col("host_id") == round_.host_id,
        pl.col("metric").is_in(list(round_.study.metrics)),
    )


def _of_system(accuracy: pl.DataFrame, *systems: str) -> pl.DataFrame:
    """Return the newest forecast of each scenario by the first of some systems that has any."""
    rows = accuracy.filter(pl.col("system").is_in(systems)).sort("made_at")
    place = pl.col("system").replace_strict(systems, range(len(systems)), return_dtype=pl.Int32)
    first = place == place.min().over("scenario_id")
    return rows.filter(first).unique("scenario_id", keep="last", maintain_order=True)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
