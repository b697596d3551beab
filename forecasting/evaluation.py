"""All that the report of a study shows of a round, computed; kept fits are loaded."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting.async_sgd import FittedModels
from forecasting.findings.errors import largest_errors
from forecasting.findings.study import (
    OpeningFigures,
    RoundDescription,
    board,
    describe_round,
    opening_figures,
    per_dollar,
    with_pending,
)
from forecasting.results import Summary, by_system, outcome, summary
from studies.rounds import Round
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Evaluation:
    """A round: how its predictions did, and why. None, or empty: nothing.

    Attributes:
        about: the round, and its runs.
        rows: a row for each scenario: see `forecasting.results.outcome` and
            `forecasting.findings.study`.
        systems: how wrong each system was: see `forecasting.results.by_system`.
        summary: the figures over all scenarios.
        opening: what the first screen says beside them.
        per_dollar: what a dollar trains: see `forecasting.findings.study`.
        published: how wrong forecasts were that had been published: see query `sealed`.
        board: all systems of the study where all forecast (query `board`); None: not asked.
        largest_errors: what they are due to: see `forecasting.findings.errors`.
    """

    about: RoundDescription
    rows: pl.DataFrame
    systems: pl.DataFrame
    summary: Summary
    opening: OpeningFigures
    per_dollar: pl.DataFrame | None
    published: pl.DataFrame | None
    board: pl.DataFrame | None
    largest_errors: pl.DataFrame | None


def evaluate(round_: Round, warehouse: Warehouse) -> Evaluation:
    """Return the evaluation of a round from what the history says of its predictions."""
    accuracy = warehouse.accuracy()
    rows = with_pending(round_, outcome(round_, accuracy), warehouse)
    systems = by_system(round_, accuracy)
    return evaluate_rows(round_, rows, systems, warehouse.landing, warehouse)


def evaluate_rows(
    round_: Round,
    rows: pl.DataFrame,
    systems: pl.DataFrame,
    landing: Path,
    warehouse: Warehouse | None = None,
) -> Evaluation:
    """Return the evaluation of a round whose predictions did so.

    Args:
        round_: that has landed.
        rows: as `forecasting.findings.study.with_pending` returns them.
        systems: as `forecasting.results.by_system` returns them.
        landing: where the runs of the round landed.
        warehouse: where fits are kept; None: nowhere.
    """
    study = round_.study.name
    return Evaluation(
        about=describe_round(round_),
        rows=rows,
        systems=systems,
        summary=summary(rows),
        opening=opening_figures(rows),
        per_dollar=per_dollar(round_, rows),
        published=warehouse.query("sealed", study=study) if warehouse else None,
        board=None if warehouse is None else board(round_, warehouse),
        largest_errors=largest_errors(
            round_, rows, landing, FittedModels(round_, landing, warehouse)
        ),
    )
