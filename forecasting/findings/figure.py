"""Figures of papers as they are declared: rows of a round, how they are drawn, what was printed."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from forecasting.async_sgd import CapturedProfile, FittedModels, captured_profiles
from forecasting.ceer_study import CeerMeasurements, fitted_model, read_measurements
from forecasting.findings.mark import Mark
from forecasting.findings.store import Store
from forecasting.findings.study import judged_forecasts, with_pending
from forecasting.fits import mark_foreign_hosts
from forecasting.results import outcome, summary
from models.ceer.predictor import Ceer
from models.predictddl.systems import load_shipped_embedder, training_set_of
from models.predictddl.training_set import TrainingSet
from studies import run_tables
from studies.rounds import Round
from warehouse.warehouse import Warehouse


class MeasuredRound:
    """A round that has landed, and what figures take of it; each is made when first asked for."""

    def __init__(self, round_: Round, warehouse: Warehouse) -> None:
        self.round, self.warehouse, self.landing = round_, warehouse, warehouse.landing
        name = f"{round_.study.name}.{round_.repeat}.{round_.backend}.{round_.host_id}"
        self.store = Store(warehouse.home, name)

    @cached_property
    def accuracy(self) -> pl.DataFrame:
        """Rows of report.accuracy."""
        return self.warehouse.accuracy()

    @cached_property
    def rows(self) -> pl.DataFrame:
        """A row for each scenario: see `forecasting.findings.study.with_pending`."""
        return with_pending(self.round, outcome(self.round, self.accuracy), self.warehouse)

    @cached_property
    def judged(self) -> pl.DataFrame:
        """A row for each system and judged scenario: see `judged_forecasts`."""
        return judged_forecasts(self.round, self.accuracy)

    @cached_property
    def noise(self) -> float | None:
        """The noise floor of the round, relative; None: not known."""
        percent = summary(self.rows).noise_floor
        return None if percent is None else percent / 100

    @cached_property
    def models(self) -> FittedModels:
        """Models of asynchronous SGD, fitted to its profiles."""
        return FittedModels(self.round, self.landing, self.warehouse)

    @cached_property
    def captured(self) -> list[CapturedProfile]:
        """Its profiles whose packets were captured."""
        return captured_profiles(self.round, self.landing)

    @cached_property
    def steps(self) -> TrainingSet:
        """All steps of PyTorch that landed in it or that it learned from, those that judge too."""
        probes = ("torch_throughput", "inventory")
        runs = list(self.round.runs_of(*probes).values())
        runs += [run for run in self.round.learned if run.probe in probes]
        landed = [run_tables.tables(self.landing, run) for run in runs]
        tables = {
            name: pl.concat([of_run[name] for of_run in landed if name in of_run], how="diagonal")
            for name in ("run", "scenario", "sample")
        }
        marked = mark_foreign_hosts(tables, self.round.host_id)
        return training_set_of(marked, load_shipped_embedder)

    @cached_property
    def ceer(self) -> tuple[CeerMeasurements, Ceer] | None:
        """Operations and steps, and the model of them; None where no operations were profiled."""
        measured = read_measurements(self.round, self.landing)
        model = fitted_model(self.round, self.landing, self.warehouse) if measured else None
        return (measured, model) if measured and model else None


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
