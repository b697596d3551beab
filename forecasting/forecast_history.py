"""What the history tells of forecasts that are asked for, and what it keeps of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import polars as pl

from forecasting.fits import FitGroup
from forecasting.history_scope import HostSelection
from forecasting.nearest import JudgedScenarios, read_judged_scenarios
from models.choice.offers import preferred_prices
from models.system import System
from profilers.probe import Metric
from profilers.probes import measuring_probe
from warehouse.home import code_version
from warehouse.ledger import FitRecord
from warehouse.records import Backend, Prediction, Price, Scenario
from warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    from forecasting.forecast import ScenarioForecast

Figures = tuple[float | None, float | None, float | None, str | None]
"""Value, low and high, and why there is no value."""


@dataclass(frozen=True)
class NodeTypeChange:
    """A node type that has changed since it was profiled, as the fleet's watch confirmed.

    Attributes:
        node_type: its name.
        since: when the alarm was raised, UTC.
        metric: what changed.
        percent: how much worse it had become.
    """

    node_type: str
    since: datetime
    metric: str
    percent: float


@dataclass(frozen=True)
class ForecastHistory:
    """What forecasts need beside fits.

    Attributes:
        splits: how far scenarios are from what fits see, by group and scenario.
        past: how wrong systems were, rows of query leaderboard by system, split and metric.
        ledger: forecasts by kept fits, rows of query forecasts_of_fits by fit and scenario.
        changed: by run, the node types that changed after it.
        prices: of node types, on demand, as they are known now.
        judged: scenarios that were forecast and then measured on the backend.
    """

    splits: Mapping[tuple[int, str], str]
    groups: Sequence[FitGroup]
    past: Mapping[tuple[str, str, str], Mapping[str, Any]]
    ledger: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]]
    changed: Mapping[str, Sequence[NodeTypeChange]]
    prices: Sequence[Price]
    judged: JudgedScenarios

    def changed_since(self, group: FitGroup) -> tuple[NodeTypeChange, ...]:
        """Return the node types that changed after a fit's runs, each change once."""
        changes = (change for run_id in group.run_ids for change in self.changed.get(run_id, ()))
        return tuple(dict.fromkeys(changes))

    def split_of(self, group: FitGroup, scenario: Scenario) -> str:
        """Return how far a scenario is from what the fit of a group sees."""
        return self.splits[self.groups.index(group), scenario.scenario_id]

    def forecast(self, fit_id: str, scenario: Scenario) -> Figures | None:
        """Return a forecast of the ledger that this code made; None: none, or an interval only."""
        for row in self.ledger.get((fit_id, scenario.scenario_id), ()):
            if row["value"] is not None and code_version() in row["made_by"]:
                return row["value"], row["low"], row["high"], None
        return None

    def has_asked(self, fit_id: str, scenario: Scenario, snapshot: str | None) -> bool:
        """Tell whether the ledger has a forecast, merely asked for, at the prices of a snapshot."""
        rows = self.ledger.get((fit_id, scenario.scenario_id), ())
        return any(row["merely_asked"] and row["price_snapshot"] == snapshot for row in rows)


def read_history(
    warehouse: Warehouse,
    groups: Sequence[FitGroup],
    chosen_host: HostSelection,
    known_by: datetime | None = None,
) -> ForecastHistory:
    """Read what forecasts of some groups need; what was judged after `known_by` is left out."""
    splits = _splits(warehouse, groups, chosen_host) if groups else {}
    scenario_ids = {scenario.scenario_id for group in groups for _, scenario in group.of}
    ledger = (
        warehouse.query("forecasts_of_fits")
        .filter(pl.col("subject_id").is_in(list(scenario_ids)))
        .rows_by_key(("fit_id", "subject_id"), named=True)
    )
    is_judged = warehouse.has_runs_on(chosen_host.backend)
    past = _past(warehouse, chosen_host.backend) if is_judged else {}
    changed = _changed(warehouse)
    prices = preferred_prices(warehouse.query("prices_as_of", market="on_demand"))
    judged = read_judged_scenarios(warehouse, chosen_host.backend, known_by) if is_judged else {}
    return ForecastHistory(splits, groups, past, ledger, changed, prices, judged)


def _changed(warehouse: Warehouse) -> dict[str, list[NodeTypeChange]]:
    by_run: dict[str, list[NodeTypeChange]] = {}
    columns = "run_id", "node_type", "stale_since", "metric", "change_percent"
    for run_id, *fields in warehouse.kept_query("stale_runs").select(columns).iter_rows():
        by_run.setdefault(run_id, []).append(NodeTypeChange(*fields))
    return by_run


def _splits(
    warehouse: Warehouse, groups: Sequence[FitGroup], chosen_host: HostSelection
) -> dict[tuple[int, str], str]:
    asked = [
        {
            "host_id": chosen_host.host_id,
            "run_ids": group.run_ids,
            "asked": [
                {"subject_id": scenario.scenario_id, "canonical": scenario.model_dump(mode="json")}
                for _, scenario in group.of
            ],
        }
        for group in groups
    ]
    splits = warehouse.query("splits", asked=json.dumps(asked, sort_keys=True))
    return {
        (fit, scenario_id): split
        for fit, scenario_id, split in splits.select("fit", "subject_id", "split").iter_rows()
    }


def _past(warehouse: Warehouse, backend: Backend) -> dict[tuple[str, str, str], dict[str, Any]]:
    board = warehouse.kept_query("leaderboard").filter(pl.col("n") > 0, backend=backend)
    return {(row["system"], row["split"], row["metric"]): row for row in board.to_dicts()}


def metric_of(scenario: Scenario) -> Metric:
    """Return what is forecast of a scenario: what its probe measures."""
    metric = measuring_probe(scenario).metric
    assert metric is not None
    return metric


def prediction_of(
    system: System,
    fit_id: str,
    scenario: Scenario,
    figures: Figures,
    *,
    backend: Backend,
    host_id: str,
    study: str | None = None,
    repeat: int | None = None,
    price_snapshot: str | None = None,
) -> Prediction:
    """Return a forecast as the ledger keeps it; without a study it was merely asked for."""
    metric = metric_of(scenario)
    value, low, high, _ = figures
    return Prediction(
        system=system.name,
        model_version=system.version,
        fit_id=fit_id,
        subject_id=scenario.scenario_id,
        backend=backend,
        host_id=host_id,
        study=study,
        repeat=repeat,
        metric=metric.name,
        unit=metric.unit,
        value=value,
        low=low,
        high=high,
        price_snapshot=price_snapshot,
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )


def write_forecasts(
    new: Sequence["ScenarioForecast"],
    chosen_host: HostSelection,
    warehouse: Warehouse,
    made: Sequence[FitRecord] = (),
) -> int:
    """Write forecasts and return how many are new; for nothing new the history is not opened.

    Args:
        new: forecasts.
        chosen_host: whose they are.
        warehouse: the history.
        made: fits that were made now. Also those whose forecasts are all refused are kept, so that
            nobody has to make them again.
    """
    of_forecasts = [forecast.fit.record for forecast in new if forecast.fit.record is not None]
    # By their ids they are told apart when they are written; each id is a hash of a megabyte.
    fits = {id(record): record for record in (*of_forecasts, *made)}
    return warehouse.record(
        [
            prediction_of(
                forecast.system,
                forecast.fit.fit_id,
                forecast.scenario,
                (forecast.value, forecast.low, forecast.high, forecast.unknown),
                backend=chosen_host.backend,
                host_id=chosen_host.host_id,
                price_snapshot=forecast.price_snapshot,
            )
            for forecast in new
        ],
        fits=list(fits.values()),
        scenarios=[forecast.scenario for forecast in new],
        prices={forecast.prices for forecast in new if forecast.prices is not None},
    )
