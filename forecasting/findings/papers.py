"""The four papers, their figures, and the rows of these for a round."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from forecasting.findings import async_sgd, ceer, predictddl, srift
from forecasting.findings.figure import MeasuredRound, PaperFigure
from studies.rounds import Round
from warehouse.warehouse import Warehouse

PAPERS: Mapping[str, tuple[str, Sequence[PaperFigure]]] = {
    "async_sgd": ("Li et al., asynchronous SGD in TensorFlow (ICPE 2020)", async_sgd.FIGURES),
    "srift": ("Luo et al., Srift (2022)", srift.FIGURES),
    "ceer": ("Hafeez and Gandhi, Ceer", ceer.FIGURES),
    "predictddl": ("Assogba et al., PredictDDL (2023)", predictddl.FIGURES),
}
"""Titles and figures, by the names that the history gives papers."""


@dataclass(frozen=True)
class PaperEvaluation:
    """A round, and what figures show of it: paper ("": any), figure and rows."""

    study: str
    repeat: int
    shown: tuple[tuple[str, PaperFigure, pl.DataFrame], ...]


def evaluate_papers(round_: Round, warehouse: Warehouse) -> PaperEvaluation:
    """Return the figures of a round that have rows, paper by paper."""
    found = MeasuredRound(round_, warehouse)
    declared = [("", async_sgd.ERRORS)]
    declared += [(name, figure) for name, (_, figures) in PAPERS.items() for figure in figures]
    shown = (
        (name, figure, rows)
        for name, figure in declared
        if (rows := figure.rows(found)) is not None and rows.height
    )
    return PaperEvaluation(round_.study.name, round_.repeat, tuple(shown))
