"""How wrong predictions are by network, batch and workers, why, and how far means are off."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from pathlib import Path
from statistics import fmean

import polars as pl

from forecasting.async_sgd import FittedModels
from forecasting.results import distinct_parts, headline_filter
from models.async_sgd import residuals
from profilers.probes import PROBES
from studies import run_tables
from studies.curve import Curve
from studies.rounds import Round
from studies.study import Study
from warehouse.records import BadInput


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


VISITS = {"visit": pl.Int64, "scenario": pl.String, "value": pl.Float64}
"""What a scenario took in a visit, in any unit."""
FLOORS = {
    "scenario": pl.String,
    "visits": pl.Int64,
    "pairs": pl.Int64,
    "floor_percent": pl.Float64,
}
"""The floor of a scenario."""
Values = dict[int, float]
"""What a scenario took, by visit."""


def visits_of(rounds: Iterable[Round], landing: Path) -> pl.DataFrame:
    """Return `VISITS` of all that rounds of a study measured anew of whole scenarios.

    Args:
        rounds: of one backend and host.
        landing: where their runs landed.
    """
    rows = [
        (round_.repeat, need.scenario.label, value)
        for round_ in rounds
        for name, probe in PROBES.items()
        if probe.metric is not None
        for need, run in round_.runs_of(name).items()
        # A round may go on with a run of an earlier one.
        if run.repeat == round_.repeat
        and (value := _mean(run_tables.table(landing, run, "sample"), probe.metric.name))
        is not None
    ]
    return pl.DataFrame(rows, schema=VISITS, orient="row")


def floors(visits: pl.DataFrame, rounds: int = 2) -> pl.DataFrame:
    """Return `FLOORS`: a row for each scenario that was measured in two visits or more.

    Args:
        visits: `VISITS`.
        rounds: of how many the mean is a judge.

    Raises:
        BadInput: a value is not positive, or is the second of its visit.
    """
    rows = [
        (name, len(values), len(_pairs(values)), _floor(values) * sqrt(2 / rounds))
        for name, values in sorted(_checked(visits).items())
        if len(values) > 1
    ]
    return pl.DataFrame(rows, schema=FLOORS, orient="row")


def _floor(values: Values) -> float:
    """Return half of what two visits differ by in the mean, as percent of their mean."""
    return 50 * fmean(abs(value - other) / ((value + other) / 2) for value, other in _pairs(values))


def _pairs(values: Values) -> list[tuple[float, float]]:
    return list(combinations(values.values(), 2))


def _checked(visits: pl.DataFrame) -> dict[str, Values]:
    by_scenario: dict[str, Values] = {}
    for visit, scenario, value in visits.select(*VISITS).iter_rows():
        of = by_scenario.setdefault(scenario, {})
        if visit in of:
            raise BadInput(f"{scenario}: expected one value of visit {visit}, found two")
        if not value > 0:
            raise BadInput(f"{scenario}, visit {visit}: expected more than 0, found {value!r}")
        of[visit] = value
    return by_scenario


def _mean(sample: pl.DataFrame, metric: str) -> float | None:
    return _mean_of(sample.filter(pl.col("metric") == metric)["value"])


def _mean_of(values: pl.Series) -> float | None:
    known = values.drop_nulls().to_list()
    return fmean(known) if known else None
