"""All that pages show of a round, computed: of its study, and of papers; kept fits are loaded."""

from dataclasses import dataclass
from pathlib import Path

import polars as pl

from forecasting.async_sgd import FittedModels
from forecasting.findings.async_sgd import AsyncSGDFindings, async_sgd_findings
from forecasting.findings.ceer import CeerFindings, ceer_findings
from forecasting.findings.errors import RoundErrors, errors, largest_errors
from forecasting.findings.predictddl import Reuse, reuse
from forecasting.findings.srift import SriftFindings, goodput, srift_findings
from forecasting.findings.store import Store
from forecasting.findings.study import (
    OpeningFigures,
    RoundDescription,
    board,
    describe_round,
    judged_forecasts,
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


@dataclass(frozen=True)
class PaperEvaluation:
    """What papers show, of the runs and forecasts of a round. None: nothing.

    Attributes:
        about: the round, and its runs.
        errors: by network and batch size.
        links: their goodput: see `forecasting.findings.srift`.
        async_sgd, srift, ceer, predictddl: what each shows.
    """

    about: RoundDescription
    errors: RoundErrors | None
    links: pl.DataFrame | None
    async_sgd: AsyncSGDFindings
    srift: SriftFindings
    ceer: CeerFindings | None
    predictddl: Reuse | None


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


def evaluate_papers(round_: Round, warehouse: Warehouse) -> PaperEvaluation:
    """Return what papers show of a round, from what the history says of its predictions."""
    accuracy, landing = warehouse.accuracy(), warehouse.landing
    rows = with_pending(round_, outcome(round_, accuracy), warehouse)
    noise_percent = summary(rows).noise_floor
    noise = None if noise_percent is None else noise_percent / 100
    name = f"{round_.study.name}.{round_.repeat}.{round_.backend}.{round_.host_id}"
    store = Store(warehouse.home, name)
    models = FittedModels(round_, landing, warehouse)
    return PaperEvaluation(
        about=describe_round(round_),
        errors=errors(round_.study, rows),
        links=goodput(round_, landing),
        async_sgd=async_sgd_findings(round_, rows, landing, models),
        srift=srift_findings(round_, rows, landing, warehouse, store),
        ceer=ceer_findings(round_, noise, landing, warehouse),
        predictddl=reuse(round_, judged_forecasts(round_, accuracy), landing, warehouse, store),
    )
