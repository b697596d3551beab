"""What a system is: the contract between what predicts and what measures, judges and shows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import polars as pl

from networks.primitives import PrimitiveGraph
from warehouse.records import BadInput, Scenario, TrainingWorkload
from warehouse.requirements import PlannedSubject, Refusal, Requirement

Tables = Mapping[str, pl.DataFrame]
"""Rows of raw tables by name, with run_id; those of a fit are of the runs that it may see.

Where some of these are of other hosts than the forecasts are about, `run` has a column `elsewhere`.
"""


class NotCovered(BadInput):
    """A system says nothing of this scenario, whatever its settings; another system may."""


def unknown_recipe(load: TrainingWorkload) -> str | None:
    """Return why a system says nothing of a workload that knows one recipe alone; None: it does."""
    if not load.recipe:
        return None
    return f"it knows training in float32 by plain SGD, not {load.recipe}"


class FittedSystem(Protocol):
    """A fitted system."""

    def predict(self, scenarios: Sequence[Scenario]) -> pl.DataFrame:
        """Return scenario_id, value, low and high, one row per scenario.

        Where value is NULL, a column `unknown` says why there is no more than an interval.

        Raises:
            BadInput: it says nothing of a scenario; the message says why, or what to measure.
        """

    def parameters_json(self) -> str:
        """Return the fitted parameters as canonical JSON."""


@runtime_checkable
class FittedWithFallback(FittedSystem, Protocol):
    """A fitted system that gives another's forecast where its own would be worse."""

    def answered_by(self, scenario: Scenario) -> str:
        """Return whose forecast of a scenario `predict` gives."""


@runtime_checkable
class FittedWithObservations(FittedSystem, Protocol):
    """A fitted system that takes networks and nodes that have no name here."""

    def with_graphs(
        self,
        graphs: Mapping[tuple[str, int], PrimitiveGraph],
        measured: Mapping[str, Mapping[str, float]],
    ) -> FittedSystem:
        """Return this, fitted as it is, knowing more graphs, and what more node types can do."""


def _nothing(scenarios: Sequence[Scenario]) -> None:
    """Read nothing in advance."""


def _no_check(scenario: Scenario, planned: Sequence[PlannedSubject], mtu_bytes: int | None) -> None:
    """Refuse nothing."""


@runtime_checkable
class FittedWithDetail(FittedSystem, Protocol):
    """A fitted system that tells what its forecasts consist of."""

    def detail(self, scenario: Scenario) -> Mapping[str, Any]:
        """Return what a forecast consists of; names and units are the system's, for JSON."""

    def split(self, scenario: Scenario) -> str | None:
        """Return how far a scenario is from what the fit saw; None: its runs tell that."""


@dataclass(frozen=True)
class System:
    """A predictor.

    Attributes:
        name: in the ledger, for ever.
        version: of its code; a change of any forecast is a new one.
        what: one line.
        source: a paper and section, `baseline` or `ours`.
        tables: raw tables that it reads, and no others.
        inputs: what a forecast of a scenario rests on, or why it makes none. It knows nothing of
            studies and of what has been measured. Asked by `requires` alone.
        fit: fits it to `tables` of the runs asked for.
        load: reads the parameters of a fit, with the same tables.
        loads_alone: `load` needs no tables, which it then gets none of.
        transfers_across_hosts: it learns from steps on other hosts too, as it knows nodes by what
            they can do.
        pooled: one fit sees what all scenarios of a study rest on; else each set of runs has one.
        beside: the system that its figures stand beside; none: reports are not about it.
        in_words: what figures and tables call it.
        any_recipe: it tells precisions, optimizers and the like apart; others are not asked about
            what is not trained in float32 by plain SGD (`TrainingWorkload.recipe`).
        only_named: it takes part only in studies and questions that name it: it asks for runs that
            nobody else needs, stands for a part of another system, or is no better than a baseline.
        prepare: reads in one go, before forecasts are made, what those of many scenarios would read
            one by one, such as graphs of networks. It raises nothing: where it fails, the forecast
            of each scenario raises what is wrong.
        has_fallback: its fits are `FittedWithFallback`.
        tells: its fits are `FittedWithDetail`.
        check: refuses, before anything is measured, runs to which it could not be fitted, or from
            which it could not forecast a scenario (`NotCovered`: others may). Gets the scenario,
            what is planned of all that its forecasts rest on, and the MTU of the links where that
            is known.
    """

    name: str
    version: str
    what: str
    source: str
    tables: tuple[str, ...]
    inputs: Callable[[Scenario], tuple[Requirement, ...] | Refusal]
    fit: Callable[[Tables], FittedSystem]
    load: Callable[[str, Tables], FittedSystem]
    loads_alone: bool = False
    transfers_across_hosts: bool = False
    pooled: bool = False
    beside: str = ""
    in_words: str = ""
    any_recipe: bool = False
    only_named: bool = False
    prepare: Callable[[Sequence[Scenario]], None] = _nothing
    has_fallback: bool = False
    tells: bool = False
    check: Callable[[Scenario, Sequence[PlannedSubject], int | None], None] = _no_check

    def __hash__(self) -> int:
        """Return that of the name, which tells nearly all apart: plans look systems up."""
        return hash(self.name)

    def requires(self, scenario: Scenario) -> tuple[Requirement, ...] | Refusal:
        """Return what a forecast of a scenario rests on, or why it makes none."""
        inputs = self.inputs(scenario)
        unknown = None if self.any_recipe else unknown_recipe(scenario.workload)
        if scenario.strategy.casts_once and not self.any_recipe:
            unknown = "it knows whole replicas, not divided ones"
        if scenario.what_if is not None and not self.tells:
            unknown = f"it knows no {scenario.what_if.partition('=')[0]}"
        is_foreign = isinstance(inputs, Refusal) and inputs.foreign
        return inputs if unknown is None or is_foreign else Refusal(unknown)
