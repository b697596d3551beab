"""Where the largest errors of a round come from, as a table of the report."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from forecasting.simulations import FittedModels
from models.async_sgd import residuals
from reports.html_table import Cell, table
from reports.wording import percent
from studies import landed
from studies.curve import Curve
from studies.rounds import Round

LARGEST = 8
"""Scenarios that are shown: the profile of each curve of theirs is replayed."""
_HEADING = (
    "<h2>Where the largest errors come from</h2>"
    "<p>A worker's time from one step to the next, predicted and measured, and what their "
    "difference is due to: as far as steps of a worker alone differ from its profile, to compute, "
    "wire and overlap; the rest, which other workers add, is queueing. A positive difference is a "
    "time predicted too long.</p>"
)
_HEAD = (
    "scenario",
    "error",
    "predicted",
    "measured",
    "difference",
    "compute",
    "wire",
    "overlap",
    "queueing",
)


def section(round_: Round, rows: pl.DataFrame, landing: Path, models: FittedModels) -> str:
    """Return a heading and the table in HTML; `rows` is what `reports.results.outcome` returns.

    Workers of several types are left out: what a worker does alone is not one thing there.
    """
    alike = [place for place, curve in enumerate(round_.study.curves) if len(curve.worker) == 1]
    worst = largest(rows.filter(pl.col("curve").is_in(alike)))
    if worst.is_empty():
        return f"{_HEADING}<p>No scenario with two or more like workers has been judged.</p>"
    shown = worst.join(
        causes(round_, worst, landing, models), on="scenario_id", how="left", maintain_order="left"
    )
    return _HEADING + table(_HEAD, [_cells(row) for row in shown.to_dicts()])


def largest(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the judged scenarios with two or more workers that have the largest errors."""
    judged = rows.filter(pl.col("workers") > 1, pl.col("error_percent").is_not_null())
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
    (part,) = models.profiles_of(curve)
    run = round_.run_of(part)
    assert run is not None
    profile = landed.tables(landing, run)
    return residuals.alone(
        models[part],
        operations=profile["operation"],
        edges=profile["edge"],
        timings=profile["timing"],
        steps=profile["step"],
        streams=profile.get("stream"),
    )


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    signed = [row["predicted_s"] - row["measured_s"], *(row[cause] for cause in residuals.CAUSES)]
    return [
        Cell(row["label"], is_number=False),
        Cell(percent(row["error_percent"], signed=True)),
        Cell(f"{1e3 * row['predicted_s']:.0f} ms"),
        Cell(f"{1e3 * row['measured_s']:.0f} ms"),
        *(Cell(f"{1e3 * seconds:+.0f} ms".replace("-", "−")) for seconds in signed),
    ]
