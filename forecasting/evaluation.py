"""All that the report of a study shows of a round, computed."""

from dataclasses import dataclass
from functools import cached_property

import polars as pl

from forecasting.findings.study import (
    OpeningFigures,
    RoundDescription,
    describe_round,
    opening_figures,
    with_pending,
)
from forecasting.results import Summary, by_system, outcome, summary
from studies.rounds import Round
from warehouse.warehouse import Warehouse


@dataclass(frozen=True)
class Evaluation:
    """A round, and how its predictions did. None, or empty: nothing.

    Attributes:
        about: the round, and its runs.
        rows: a row for each scenario: see `forecasting.findings.study.with_pending`.
        systems: how wrong each system was: see `forecasting.results.by_system`.
        published: how wrong forecasts were that had been published: see query `sealed`.
    """

    about: RoundDescription
    rows: pl.DataFrame
    systems: pl.DataFrame
    published: pl.DataFrame | None = None

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
    accuracy = warehouse.accuracy()
    return Evaluation(
        about=describe_round(round_),
        rows=with_pending(round_, outcome(round_, accuracy), warehouse),
        systems=by_system(round_, accuracy),
        published=warehouse.query("sealed", study=round_.study.name),
    )
