"""Where the largest errors of a round come from: compute, wire, overlap or queueing."""

from pathlib import Path

import polars as pl

from forecasting.results import counts
from forecasting.simulations import FittedModels
from models.async_sgd import residuals
from studies import landed
from studies.curve import Curve
from studies.rounds import Round

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
        `CAUSES`, as `models.async_sgd.residuals.attributed` has them; no rows where nothing has
        been judged. None where no worker was profiled alone.
    """
    if not models:
        return None
    alike = [
        place
        for place, curve in enumerate(round_.study.curves)
        if len(curve.worker) == 1 and models.profiles_of(curve)
    ]
    worst = largest(rows.filter(pl.col("curve").is_in(alike)))
    if worst.is_empty():
        return worst
    due = causes(round_, worst, landing, models)
    return worst.join(due, on="scenario_id", how="left", maintain_order="left")


def largest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the judged scenarios of those that count that have the largest errors."""
    judged = rows.filter(counts(rows), pl.col("error_percent").is_not_null())
    return judged.sort(pl.col("error_percent").abs(), "label", descending=[True, False]).head(
        LARGEST
    )


def causes(
    round_: Round, judged: pl.DataFrame, landing: Path, models: FittedModels
) -> pl.DataFrame:
    """Return what `residuals.attributed` says of judged scenarios, of all curves."""
    return pl.concat(
        residuals.attributed(mine, _alone(round_, round_.study.curves[curve], landing, models))
        for (curve,), mine in judged.group_by("curve", maintain_order=True)
        if isinstance(curve, int)
    )


def _alone(round_: Round, curve: Curve, landing: Path, models: FittedModels) -> pl.DataFrame:
    """Return how a curve's profile and its replay differ."""
    (need,) = models.profiles_of(curve)
    run = round_.run_of(need)
    assert run is not None
    profile = landed.tables(landing, run)
    return residuals.alone(
        models[need],
        operations=profile["operation"],
        edges=profile["edge"],
        timings=profile["timing"],
        steps=profile["step"],
        streams=profile.get("stream"),
    )
