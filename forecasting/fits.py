"""Fits: which forecasts share one, and how it is kept by the history, or made."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from hashlib import sha256
from threading import Lock
from typing import Any
from weakref import WeakValueDictionary

import polars as pl

from forecasting.code import code_digest
from forecasting.history_scope import VisibleRun
from forecasting.scope import Asked
from models.system import FittedSystem, System, Tables
from networks.kept_graphs import keep_beside
from warehouse.home import code_version
from warehouse.ledger import FitRecord
from warehouse.records import Backend, BadInput, Scenario
from warehouse.warehouse import Warehouse


@dataclass(frozen=True, eq=False)
class FitGroup:
    """Scenarios that one fit of a system forecasts, and the runs that it sees, the newest first.

    A group is itself alone: to compare thousands of scenarios at each look would take the longest.
    """

    system: System
    of: tuple[tuple[Asked, Scenario], ...]
    runs: tuple[VisibleRun, ...]

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs by their names, the oldest first."""
        return tuple(run.run_id for run in reversed(self.runs))


@dataclass(frozen=True)
class Fit:
    """A fitted system.

    Attributes:
        group: what it forecasts, and what it saw.
        fit_id: as the ledger names it.
        fitted: returns what can be asked for forecasts; a kept fit is read when it is asked.
        fitted_at: when it was fitted.
        row_count: how many rows it saw.
        record: what the ledger is to keep of it; None: it does already.
    """

    group: FitGroup
    fit_id: str
    fitted: Callable[[], FittedSystem]
    fitted_at: datetime
    row_count: int
    record: FitRecord | None

    @property
    def runs(self) -> tuple[VisibleRun, ...]:
        """The runs that it saw, the newest first."""
        return self.group.runs


@dataclass(frozen=True)
class FitInputs:
    """What a group is fitted to, and what the history keeps of such fits.

    Attributes:
        tables: the rows that the fit sees.
        kept: the fit, as query `fits` has it; None: it has to be made.
        known: the runs of each fit of this system that is kept, by whatever code.
    """

    tables: Tables
    kept: Mapping[str, Any] | None
    known: Sequence[Sequence[str]]


def read_fit_inputs(
    groups: Sequence[FitGroup], host_id: str, warehouse: Warehouse
) -> dict[FitGroup, FitInputs]:
    """Read what fits of some groups need; a table is read once for all of them.

    Args:
        groups: what is fitted.
        host_id: the host that forecasts are about.
        warehouse: the history.
    """
    if not groups:
        return {}
    runs_of: dict[tuple[str, ...], dict[str, None]] = {}
    for group in groups:
        runs_of.setdefault(group.system.tables, {}).update(dict.fromkeys(group.run_ids))
    rows = {names: warehouse.visible_tables(names, list(ids)) for names, ids in runs_of.items()}
    known = warehouse.query("fits").select("system", "model_version", "run_ids")
    inputs = {}
    for group in groups:
        system, names = group.system, group.system.tables
        tables: Tables = rows[names]
        if len(group.run_ids) < len(runs_of[names]):
            seen = pl.col("run_id").is_in(group.run_ids)
            tables = {name: table.filter(seen) for name, table in tables.items()}
        tables = mark_foreign_hosts(tables, host_id)
        of_system = known.filter(system=system.name, model_version=system.version)
        kept = newest_kept_fit(system, group.run_ids, tables, warehouse)
        inputs[group] = FitInputs(tables, kept, of_system["run_ids"].to_list())
    return inputs


def load_or_fit(
    group: FitGroup,
    inputs: FitInputs,
    *,
    backend: Backend,
    host_id: str,
    say: Callable[[str], None],
) -> Fit | BadInput:
    """Return the fit that the history keeps for a group, else fit it; or why that fails.

    A fit is kept for a system and its version, the tables it reads, the runs and rows that it saw,
    and the code that made it (`forecasting.code`): other changes fit nothing anew. The last fits of
    this process are at hand: a service is asked again and again.
    """
    rows = tuple(
        (name, len(of), of.hash_rows().sum()) for name, of in sorted(inputs.tables.items())
    )
    key = group.system, code_digest(), group.run_ids, backend, host_id, rows
    with _LOCKS.setdefault(key, Lock()):  # others fit something else meanwhile
        fit = _at_hand.pop(key, None)
        if fit is None or (fit.record is None and inputs.kept is None):  # another home has it
            try:
                fit = _kept(group, inputs) or _made(group, inputs, backend, host_id, say)
            except BadInput as error:
                return error
        _at_hand[key] = fit
    for earlier in list(_at_hand)[:-_MOST_AT_HAND]:
        _at_hand.pop(earlier, None)
    if fit.record is not None and inputs.kept is not None:  # the ledger has it meanwhile
        fit = replace(fit, fit_id=str(inputs.kept["fit_id"]), record=None)
    return replace(fit, group=group)


_MOST_AT_HAND = 8
_LOCKS = WeakValueDictionary[Hashable, Any]()
_at_hand: dict[Hashable, Fit] = {}


def _kept(group: FitGroup, inputs: FitInputs) -> Fit | None:
    if (kept := inputs.kept) is None:
        return None
    loaded = cache(partial(group.system.load, str(kept["parameters"]), inputs.tables))
    return Fit(group, str(kept["fit_id"]), loaded, kept["created_at"], kept["row_count"], None)


def _made(
    group: FitGroup,
    inputs: FitInputs,
    backend: Backend,
    host_id: str,
    say: Callable[[str], None],
) -> Fit:
    system, tables = group.system, inputs.tables
    say(f"fit {system.name} to {len(group.runs)} runs")
    fitted = system.fit(tables)
    wanted = set(group.run_ids)
    # In the order of a fit that saw the same runs, the same fit again is the same fit.
    run_ids = next((ids for ids in inputs.known if set(ids) == wanted), group.run_ids)
    record = FitRecord(
        system=system.name,
        model_version=system.version,
        parameters=json.loads(fitted.parameters_json()),
        run_ids=tuple(run_ids),
        row_filter=row_filter(system),
        row_count=sum(table.height for table in tables.values()),
        data_hash=data_hash(tables),
        backend=backend,
        host_id=host_id,
        code_version=code_version(),
        code_digest=code_digest(),
        created_at=datetime.now(UTC),
    )
    return Fit(group, record.fit_id, lambda: fitted, record.created_at, record.row_count, record)


def data_hash(tables: Tables) -> str:
    """Return what names the content of the rows that a fit sees."""
    digest = sha256()
    for name, table in sorted(tables.items()):
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16]


def mark_foreign_hosts(tables: Tables, host_id: str) -> Tables:
    """Return what a fit sees: where some runs are of other hosts, `run` says which (`elsewhere`).

    Args:
        tables: rows of raw tables.
        host_id: the host that forecasts are about.
    """
    runs = tables.get("run")
    if runs is None:
        return tables
    # What others measured is of no host that forecasts are about.
    elsewhere = (pl.col("host_id") != host_id) & (pl.col("backend") != "imported")
    marked = runs.with_columns(elsewhere=elsewhere)
    return {**tables, "run": marked} if marked["elsewhere"].any() else tables


def row_filter(system: System) -> str:
    """Return which rows of its runs a fit of a system sees, in the words of its record."""
    return f"all visible rows of these runs in {', '.join(system.tables)}"


def newest_kept_fit(
    system: System, run_ids: Sequence[str], tables: Tables | None, warehouse: Warehouse
) -> Mapping[str, Any] | None:
    """Return the newest fit that is kept for all of these, as query `fits` has it; None: none.

    Without `tables`, runs of which rows were loaded since count as those that the fit saw.
    """
    keep_beside(warehouse.home)
    kept = warehouse.query("fits", system=system.name).filter(
        pl.col("made_by").list.contains(code_digest()),
        model_version=system.version,
        row_filter=row_filter(system),
    )
    if tables is not None:
        kept = kept.filter(row_count=sum(table.height for table in tables.values()))
        if (runs := tables.get("run")) is not None and "elsewhere" in runs.columns:
            # The same runs tell something else to each of their hosts.
            here = runs.filter(~pl.col("elsewhere"))["host_id"].unique().to_list()
            kept = kept.filter(pl.col("host_id").is_in(here))
    wanted = set(run_ids)
    fits = [row for row in kept.to_dicts() if set(row["run_ids"]) == wanted]
    return fits[-1] if fits else None
