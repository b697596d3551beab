"""Figures of papers as they are declared: rows of a round, how they are drawn, what was printed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from forecasting.ceer_study import CeerMeasurements, read_measurements
from forecasting.evaluation import judged_forecasts, with_pending
from forecasting.fits import Fit
from forecasting.round_forecasts import fits_of_round
from models.async_sgd.systems import ASYNC_SGD
from models.ceer.systems import CEER, CEER_PYTORCH
from studies import run_tables
from studies.curve import Curve
from studies.rounds import Round
from warehouse.records import Scenario
from warehouse.warehouse import Warehouse


class MeasuredRound:
    """A round that has landed, and what figures take of it; each is made when first asked for."""

    def __init__(self, round_: Round, warehouse: Warehouse) -> None:
        self.round, self.warehouse, self.landing = round_, warehouse, warehouse.landing

    @cached_property
    def accuracy(self) -> pl.DataFrame:
        """Rows of report.accuracy."""
        return self.warehouse.query("judged")

    @cached_property
    def rows(self) -> pl.DataFrame:
        """A row for each scenario: see `forecasting.evaluation.with_pending`."""
        return with_pending(self.round, self.accuracy, self.warehouse)

    @cached_property
    def judged(self) -> pl.DataFrame:
        """A row for each system and judged scenario: see `judged_forecasts`."""
        return judged_forecasts(self.round, self.accuracy)

    @cached_property
    def fits(self) -> Mapping[Curve, Fit]:
        """Fits of asynchronous SGD to the profiles of its curves."""
        return fits_of_round(ASYNC_SGD, self.round, self.warehouse)

    @cached_property
    def trained(self) -> list[Scenario]:
        """What each run of PyTorch trained that landed in it or that it learned from."""
        own = [need.scenario for need in self.round.runs_of("torch_throughput")]
        learned = [
            Scenario.model_validate_json(text)
            for run in self.round.learned
            if run.probe == "torch_throughput"
            for text in run_tables.table(self.landing, run, "scenario")["canonical"]
        ]
        return own + learned

    @cached_property
    def ceer(self) -> CeerMeasurements | None:
        """Operations and steps; None where no operations were profiled, or nothing is fitted."""
        fitted = any(
            fits_of_round(system, self.round, self.warehouse) for system in (CEER, CEER_PYTORCH)
        )
        return read_measurements(self.round, self.landing) if fitted else None


@dataclass(frozen=True)
class Mark:
    """How rows are drawn.

    Attributes:
        kind: lines, points, steps, or spans from `x` to `to`.
        x: a column.
        y: columns; those after the first are dashed, or points beside a line.
        of: the column that colours tell apart.
        panel: a column with a picture for each of its values.
        to: where a span ends.
        log: axes on a scale of logarithms: x, y or xy.
    """

    kind: Literal["line", "points", "step", "spans"]
    x: str
    y: tuple[str, ...]
    of: str = ""
    panel: str = ""
    to: str = ""
    log: str = ""


@dataclass(frozen=True)
class PaperFigure:
    """A figure or table of a paper.

    Attributes:
        title: of its section.
        said: what a reader has to know, as HTML.
        rows: of a round; None or none: the round has nothing of it.
        mark: how rows are drawn; None: they are a table alone.
        columns: of the table; None: all, empty: there is no table.
        printed: pattern of place and quantity of what the paper prints of it.
    """

    title: str
    said: str
    rows: Callable[[MeasuredRound], pl.DataFrame | None]
    mark: Mark | None = None
    columns: tuple[str, ...] | None = None
    printed: str = ""


def together(frames: list[pl.DataFrame]) -> pl.DataFrame | None:
    """Return frames below each other; None without any."""
    return pl.concat(frames, how="diagonal_relaxed") if frames else None
