"""What the history has to say to forecasts that are asked for, read in one go."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import polars as pl

from forecasting.asked.groups import Group
from forecasting.asked.near import Judged
from forecasting.asked.place import Place
from forecasting.fits import stored, told_apart
from models.system import Tables
from warehouse.records import Backend, Scenario
from warehouse.version import code_version
from warehouse.warehouse import Warehouse

Figures = tuple[float | None, float | None, float | None, str | None]
"""Value, low and high, and why there is no value."""


@dataclass(frozen=True)
class Past:
    """How wrong a system has been, percent: the mean over `n` subjects.

    `noise_floor` is how wrong repeated measurement is, over the `noise_n` subjects that have one.
    """

    n: int
    mape: float
    noise_floor: float | None
    noise_n: int


@dataclass(frozen=True)
class Changed:
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
class History:
    """What was read.

    Attributes:
        tables: the rows that each group's fit sees.
        kept: the fit of a group, where it is kept.
        fits: the runs of each fit of a system that is kept, by whatever code.
        splits: how far scenarios are from what fits see, by group and scenario.
        past: by system, split and metric.
        ledger: forecasts by kept fits.
        changed: by run, the node types that changed after it.
        prices: of node types, on demand, as they are known now.
        judged: scenarios that were forecast and then measured on the backend.
    """

    tables: Mapping[Group, Tables]
    kept: Mapping[Group, Mapping[str, Any]]
    fits: Mapping[str, Sequence[Sequence[str]]]
    splits: Mapping[tuple[int, str], str]
    groups: Sequence[Group]
    past: Mapping[tuple[str, str, str], Past]
    ledger: pl.DataFrame
    changed: Mapping[str, Sequence[Changed]]
    prices: pl.DataFrame
    judged: Judged

    def changed_since(self, group: Group) -> tuple[Changed, ...]:
        """Return the node types that changed after a fit's runs, each change once."""
        found = (one for run_id in group.run_ids for one in self.changed.get(run_id, ()))
        return tuple(dict.fromkeys(found))

    def split_of(self, group: Group, scenario: Scenario) -> str:
        """Return how far a scenario is from what the fit of a group sees."""
        return self.splits[self.groups.index(group), scenario.scenario_id]

    def forecast(self, fit_id: str, scenario: Scenario) -> Figures | None:
        """Return a forecast of the ledger that this code made; None: none, or an interval only."""
        rows = self._of(fit_id, scenario).filter(
            pl.col("value").is_not_null(), pl.col("made_by").list.contains(code_version())
        )
        return next(
            ((*figures, None) for figures in rows.select("value", "low", "high").iter_rows()), None
        )

    def has_asked(self, fit_id: str, scenario: Scenario, snapshot: str | None) -> bool:
        """Tell whether the ledger has a forecast, merely asked for, at the prices of a snapshot."""
        at_prices = pl.col("price_snapshot").eq_missing(pl.lit(snapshot, pl.String))
        return not self._of(fit_id, scenario).filter("merely_asked", at_prices).is_empty()

    def _of(self, fit_id: str, scenario: Scenario) -> pl.DataFrame:
        return self.ledger.filter(fit_id=fit_id, subject_id=scenario.scenario_id)


def read_history(
    warehouse: Warehouse, groups: Sequence[Group], place: Place, known_by: datetime | None = None
) -> History:
    """Read what forecasts of some groups need; what was judged after `known_by` is left out."""
    rows: dict[tuple[tuple[str, ...], tuple[str, ...]], Tables] = {}
    for group in groups:
        of = group.system.tables, group.run_ids
        if of not in rows:  # systems that rest on the same read them once
            rows[of] = warehouse.visible_tables(*of)
    tables = {
        group: told_apart(rows[group.system.tables, group.run_ids], place.host_id)
        for group in groups
    }
    kept = {
        group: found
        for group in groups
        if (found := stored(group.system, group.run_ids, tables[group], warehouse)) is not None
    }
    known = warehouse.query("fits").select("system", "model_version", "run_ids")
    fits = {
        group.system.name: known.filter(
            system=group.system.name, model_version=group.system.version
        )["run_ids"].to_list()
        for group in groups
    }
    splits = _splits(warehouse, groups, place) if groups else {}
    ledger = warehouse.query("forecasts_of_fits")
    past = _past(warehouse, place.backend)
    changed = _changed(warehouse)
    prices = warehouse.query("prices_as_of", market="on_demand")
    judged = Judged.read(warehouse, place.backend, known_by)
    return History(tables, kept, fits, splits, groups, past, ledger, changed, prices, judged)


def _changed(warehouse: Warehouse) -> dict[str, list[Changed]]:
    found: dict[str, list[Changed]] = {}
    columns = "run_id", "node_type", "stale_since", "metric", "change_percent"
    for run_id, *fields in warehouse.query("stale_runs").select(columns).iter_rows():
        found.setdefault(run_id, []).append(Changed(*fields))
    return found


def _splits(
    warehouse: Warehouse, groups: Sequence[Group], place: Place
) -> dict[tuple[int, str], str]:
    asked = {
        f"{number} {scenario.scenario_id}": {
            "key": f"{number} {scenario.scenario_id}",
            "canonical": scenario.model_dump(mode="json"),
            "run_ids": group.run_ids,
            "host_id": place.host_id,
        }
        for number, group in enumerate(groups)
        for _, scenario in group.of
    }
    found = warehouse.query("splits", asked=json.dumps(list(asked.values()), sort_keys=True))
    return {
        (int(number), scenario_id): split
        for key, split in found.select("key", "split").iter_rows()
        for number, scenario_id in [key.split(" ")]
    }


def _past(warehouse: Warehouse, backend: Backend) -> dict[tuple[str, str, str], Past]:
    board = warehouse.leaderboard().filter(pl.col("n") > 0, backend=backend)
    return {
        (row["system"], row["split"], row["metric"]): Past(
            row["n"], row["mape"], row["noise_floor"], row["noise_n"]
        )
        for row in board.to_dicts()
    }
