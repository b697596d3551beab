"""All that the report of a study shows of a round, computed."""

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from forecasting.inputs import baseline_in_words, systems_of
from forecasting.results import (
    Summary,
    by_system,
    headline_filter,
    latest_forecasts,
    of_place,
    of_round,
    outcome,
    summary,
)
from studies.curve import node_types
from studies.rounds import Round
from warehouse.warehouse import Warehouse

# What systems forecast of the scenarios of a round, beside what was measured after it.


SCHEMA = {
    "system": pl.String,
    "scenario_id": pl.String,
    "dnn": pl.String,
    "workers": pl.Int64,
    "predicted": pl.Float64,
    "measured": pl.Float64,
    "error_percent": pl.Float64,
    "noise_floor_percent": pl.Float64,
    "fit_id": pl.String,
}
"""A row for each system and scenario that was judged."""


def judged_forecasts(round_: Round, accuracy: pl.DataFrame) -> pl.DataFrame:
    """Return `SCHEMA` of a round: each system's newest forecast of what no busy host measured.

    Forecasts of other studies count where they are of the same scenarios, on the same host, by
    systems that the study of the round does not have: Ernest's own runs are a study of theirs.

    Args:
        round_: of a study.
        accuracy: rows of report.accuracy.
    """
    rows = [
        (scenario.scenario_id, scenario.workload.dnn, scenario.strategy.workers)
        for curve in round_.study.curves
        if curve.is_judged
        for scenario in curve.scenarios(round_.backend)
    ]
    scenarios = pl.DataFrame(rows, ["scenario_id", "dnn", "workers"], orient="row").unique()
    own = [system.name for system in systems_of(round_.study)]
    others = of_place(round_, accuracy).filter(
        pl.col("study") != round_.study.name, ~pl.col("system").is_in(own)
    )
    return (
        pl.concat([of_round(round_, accuracy), others])
        .filter(pl.col("error_percent").is_not_null(), ~pl.col("host_busy"))
        .sort("made_at")
        .unique(["system", "scenario_id"], keep="last")
        .join(scenarios, on="scenario_id")
        .select(SCHEMA.keys())
        .cast(pl.Schema(SCHEMA))
        .sort("system", "dnn", "workers", "scenario_id")
    )


# What a round knows of scenarios beyond verdicts: forecasts nobody judged, and when all were made.
#
# A run judges forecasts of its own round. Where a later round did not profile a scenario again, it
# has no forecast of its own, and the one of an earlier round stands.


STANDING = {"forecast_round": pl.Int32, "made": pl.String}
"""Columns that `with_pending` adds: the round of the forecast shown, and of judged ones when it
was made: "sealed" (published before the measurement), "before" its run began, or "after"."""


def with_pending(round_: Round, accuracy: pl.DataFrame, warehouse: Warehouse) -> pl.DataFrame:
    """Return rows of `forecasting.results.outcome` with what no verdict tells, and `STANDING`.

    Without a verdict, predicted, low, high and linear are those of the newest forecast of this
    round or of one before it; measured is what this round measured. Such rows have no error.
    `accuracy` has rows of report.accuracy.
    """
    name, repeat, rows = round_.study.name, round_.repeat, outcome(round_, accuracy)
    with warehouse.reading():
        ledger = warehouse.query("predictions", study=name, repeat=None)
        measured = of_place(round_, warehouse.query("measured", study=name, repeat=repeat))
        sealed = warehouse.query("published", study=name)
    runs = measured.group_by("scenario_id").agg(pl.col("value").mean(), pl.col("started_at").min())
    return with_time_made(
        merge_pending(round_, rows, latest_forecasts(round_, ledger), runs), sealed
    )


def merge_pending(
    round_: Round, rows: pl.DataFrame, newest: pl.DataFrame, measured: pl.DataFrame
) -> pl.DataFrame:
    """Return rows with forecasts and measurements that no verdict has, and started_at of runs.

    Args:
        round_: whose rows they are.
        rows: of `forecasting.results.outcome`.
        newest: of `forecasting.results.latest_forecasts`.
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


def with_time_made(rows: pl.DataFrame, sealed: pl.DataFrame) -> pl.DataFrame:
    """Return rows with when each judged forecast was made; NULL where nothing was judged.

    Args:
        rows: of `merge_pending`.
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


# The first screen of a report: how wrong forecasts were, and when they were made.


@dataclass(frozen=True)
class OpeningFigures:
    """What the first screen says beside the summary, of the same judged scenarios.

    Attributes:
        systems: that made the forecasts.
        nine_of_ten: the 90th percentile of absolute errors, percent, interpolated; None: no error.
        inside: how many measurements are inside of the interval.
        inside_n: how many forecasts have an interval.
        sealed: how many forecasts were published before their scenarios were measured.
        before: how many more had been made when the run that judges them began.
        after: how many were made later, from what had been profiled.
        points: workers, dnn, error_percent and linear_error_percent of every judged scenario.
    """

    systems: tuple[str, ...]
    nine_of_ten: float | None
    inside: int
    inside_n: int
    sealed: int
    before: int
    after: int
    points: pl.DataFrame


def opening_figures(rows: pl.DataFrame) -> OpeningFigures:
    """Return what the first screen says of rows of `with_pending`.

    The same scenarios count as in the summary, and those of a busy host do not.
    """
    judged = rows.filter(pl.col("error_percent").is_not_null())
    counted = judged.filter(headline_filter(rows), ~pl.col("host_busy"))
    made = counted["made"].to_list()
    inside = counted.select(pl.col("measured").is_between("low", "high")).to_series().drop_nulls()
    return OpeningFigures(
        systems=tuple(counted["system"].drop_nulls().unique().sort()),
        nine_of_ten=counted["error_percent"].abs().quantile(0.9, "linear"),
        inside=sum(inside),
        inside_n=len(inside),
        sealed=made.count("sealed"),
        before=made.count("before"),
        after=made.count("after"),
        points=judged.select("workers", "dnn", "error_percent", "linear_error_percent"),
    )


@dataclass(frozen=True)
class Evaluation:
    """A round, and how its predictions did. None, or empty: nothing.

    Attributes:
        round: that is evaluated.
        rows: a row for each scenario: see `with_pending`.
        systems: how wrong each system was: see `forecasting.results.by_system`.
        published: how wrong forecasts were that had been published: see query `sealed`.
    """

    round: Round
    rows: pl.DataFrame
    systems: pl.DataFrame
    published: pl.DataFrame | None = None

    @property
    def metric(self) -> str:
        """What is predicted and measured, as figures and tables name it."""
        return self.round.study.metric.in_words

    @cached_property
    def baseline(self) -> str:
        """What predictions stand beside, in words."""
        return baseline_in_words(self.round.study)

    @property
    def node_types(self) -> tuple[str, ...]:
        """The combinations of its nodes."""
        return tuple(node_types(self.round.study.curves))

    @cached_property
    def summary(self) -> Summary:
        """The figures over all scenarios."""
        return summary(self.rows)

    @cached_property
    def opening(self) -> OpeningFigures:
        """What the first screen says beside them."""
        return opening_figures(self.rows)


def evaluate(round_: Round, warehouse: Warehouse) -> Evaluation:
    """Return the evaluation of a round from what the history says of its predictions."""
    accuracy = warehouse.query("judged")
    return Evaluation(
        round_,
        rows=with_pending(round_, accuracy, warehouse),
        systems=by_system(round_, accuracy),
        published=warehouse.query("sealed", study=round_.study.name),
    )
