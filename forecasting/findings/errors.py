"""How wrong predictions are by network, batch and workers, why, and how far means are off."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import polars as pl

from forecasting.async_sgd import FittedModels
from forecasting.results import distinct_parts, headline_filter
from models.async_sgd import residuals
from studies import run_tables
from studies.curve import Curve
from studies.rounds import Round
from studies.study import Study


@dataclass(frozen=True)
class RoundErrors:
    """Errors of the judged scenarios of a round, in percent.

    Attributes:
        by_batch: dnn, batch_size, and of scenarios with two or more workers n, mean, absolute (mean
            of absolute errors) and largest; sorted by the first two. What was measured while the
            host was busy does not count.
        by_network: the curves of each network with their names, in the order of the study: workers
            and error_percent. A network without a curve of several numbers of workers has none.
    """

    by_batch: pl.DataFrame
    by_network: Mapping[str, tuple[tuple[str, pl.DataFrame], ...]]


def errors(study: Study, rows: pl.DataFrame) -> RoundErrors | None:
    """Return the errors of a round; None if nothing was judged.

    Args:
        study: whose round it is.
        rows: as `forecasting.results.outcome` returns them.
    """
    batches = [curve.batch_size for curve in study.curves]
    judged = rows.filter(pl.col("error_percent").is_not_null()).with_columns(
        batch_size=pl.col("curve").replace_strict(range(len(batches)), batches)
    )
    if judged.is_empty():
        return None
    error = pl.col("error_percent")
    by_batch = (
        judged.filter(headline_filter(rows), ~pl.col("host_busy"))
        .group_by("dnn", "batch_size")
        .agg(n=pl.len(), mean=error.mean(), absolute=error.abs().mean(), largest=error.abs().max())
        .sort("dnn", "batch_size")
    )
    several = pl.col("workers").n_unique().over("curve").max().over("dnn") > 1
    networks = judged.filter(several).partition_by("dnn", maintain_order=True)
    return RoundErrors(by_batch, {network["dnn"][0]: _curves(network) for network in networks})


def _curves(rows: pl.DataFrame) -> tuple[tuple[str, pl.DataFrame], ...]:
    dnn = rows["dnn"][0]
    curves = rows.partition_by("curve", maintain_order=True)
    names = distinct_parts([curve["title"][0].removeprefix(f"{dnn} ") for curve in curves])
    return tuple(
        (name, curve.select("workers", "error_percent"))
        for name, curve in zip(names, curves, strict=True)
    )


# Where the largest errors of a round come from: compute, wire, overlap or queueing.


CAUSES = residuals.CAUSES
LARGEST = 8
"""Scenarios that are shown: the profile of each curve of theirs is replayed."""


def largest_errors(
    round_: Round, rows: pl.DataFrame, landing: Path, models: FittedModels
) -> pl.DataFrame | None:
    """Return the judged scenarios with the largest errors, and what these are due to.

    Workers of several types are left out: what a worker does alone is not one thing there.

    Args:
        round_: whose predictions were judged.
        rows: as `forecasting.results.outcome` returns them.
        landing: where its runs landed.
        models: fitted to its profiles.

    Returns:
        The columns of `rows`, predicted_s and measured_s (a worker's time from step to step) and
        `CAUSES`, as `models.async_sgd.residuals.attribute_errors` has them; no rows where nothing
        has been judged. None where no worker was profiled alone.
    """
    if not models:
        return None
    alike = [
        place
        for place, curve in enumerate(round_.study.curves)
        if len(curve.worker) == 1 and models.profiles_of(curve)
    ]
    worst = select_largest(rows.filter(pl.col("curve").is_in(alike)))
    if worst.is_empty():
        return worst
    due = causes(round_, worst, landing, models)
    return worst.join(due, on="scenario_id", how="left", maintain_order="left")


def select_largest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the judged scenarios of those that count that have the largest errors."""
    judged = rows.filter(headline_filter(rows), pl.col("error_percent").is_not_null())
    return judged.sort(pl.col("error_percent").abs(), "label", descending=[True, False]).head(
        LARGEST
    )


def causes(
    round_: Round, judged: pl.DataFrame, landing: Path, models: FittedModels
) -> pl.DataFrame:
    """Return what `residuals.attribute_errors` says of judged scenarios, of all curves."""
    return pl.concat(
        residuals.attribute_errors(
            rows, _alone(round_, round_.study.curves[curve], landing, models)
        )
        for (curve,), rows in judged.group_by("curve", maintain_order=True)
        if isinstance(curve, int)
    )


def _alone(round_: Round, curve: Curve, landing: Path, models: FittedModels) -> pl.DataFrame:
    """Return how a curve's profile and its replay differ."""
    (need,) = models.profiles_of(curve)
    run = round_.run_of(need)
    assert run is not None
    profile = run_tables.tables(landing, run)
    return residuals.replay_errors(
        models[need],
        operations=profile["operation"],
        edges=profile["edge"],
        timings=profile["timing"],
        steps=profile["step"],
        streams=profile.get("stream"),
    )


def _mean(sample: pl.DataFrame, metric: str) -> float | None:
    return _mean_of(sample.filter(pl.col("metric") == metric)["value"])


def _mean_of(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_list()
    return fmean(known) if known else None
