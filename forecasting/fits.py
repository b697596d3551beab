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

    def elsewhere(self, host_id: str) -> list[str]:
        """Return the runs of other hosts; what others measured is of no host of ours."""
        return [
            run.run_id for run in self.runs if run.host_id != host_id and run.backend != "imported"
        ]


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


Fitter = Callable[[Callable[[str], None]], Fit | BadInput]
"""Returns a fit, or why there is none; tells what takes long to whom it is given."""


def read_fits(
    groups: Sequence[FitGroup], backend: Backend, host_id: str, warehouse: Warehouse
) -> dict[FitGroup, Fitter]:
    """Read what fits of some groups need; a table is read once for all of them.

    Args:
        groups: what is fitted.
        backend: that forecasts are about.
        host_id: the same, of hosts.
        warehouse: the history.
    """
    if not groups:
        return {}
    keep_beside(warehouse.home)
    known, kept = warehouse.query("fits"), dict[FitGroup, Mapping[str, Any] | None]()
    counts = {
        names: warehouse.visible_row_counts(names, ids)
        for names, ids in _run_ids_by_tables(groups).items()
    }
    for group in groups:
        row_count = sum(counts[group.system.tables].get(run_id, 0) for run_id in group.run_ids)
        kept[group] = newest_kept_fit(group, row_count, host_id, known)
    reading = [group for group in groups if kept[group] is None or not group.system.loads_alone]
    run_ids = _run_ids_by_tables(reading)
    rows = {names: warehouse.visible_tables(names, ids) for names, ids in run_ids.items()}
    fitters: dict[FitGroup, Fitter] = {}
    for group in groups:
        names = group.system.tables
        tables: Tables = rows[names] if group in reading else {}
        if tables and len(group.run_ids) < len(run_ids[names]):
            seen = pl.col("run_id").is_in(group.run_ids)
            tables = {name: table.filter(seen) for name, table in tables.items()}
        if "run" in tables and (elsewhere := group.elsewhere(host_id)):
            # A fit sees which runs are of other hosts, where some are.
            marked = tables["run"].with_columns(elsewhere=pl.col("run_id").is_in(elsewhere))
            tables = {**tables, "run": marked}
        fitters[group] = partial(load_or_fit, group, tables, kept[group], known, backend, host_id)
    return fitters


def _run_ids_by_tables(groups: Sequence[FitGroup]) -> dict[tuple[str, ...], list[str]]:
    """Return the runs of groups by the tables that their systems read."""
    runs_of: dict[tuple[str, ...], dict[str, None]] = {}
    for group in groups:
        runs_of.setdefault(group.system.tables, {}).update(dict.fromkeys(group.run_ids))
    return {names: list(ids) for names, ids in runs_of.items()}


def load_or_fit(
    group: FitGroup,
    tables: Tables,
    kept: Mapping[str, Any] | None,
    known: pl.DataFrame,
    backend: Backend,
    host_id: str,
    say: Callable[[str], None],
) -> Fit | BadInput:
    """Return the fit that the history keeps for a group, else fit it; or why that fails.

    A fit is kept for a system and its version, the tables it reads, the runs and rows that it saw,
    and the code that made it (`forecasting.code`): other changes fit nothing anew. The last fits of
    this process are at hand: a service is asked again and again.

    Args:
        group: what is fitted.
        tables: the rows that the fit sees; none where the kept one needs none.
        kept: the fit, as query `fits` has it; None: it has to be made.
        known: all fits that are kept, by whatever code.
        backend: that forecasts are about.
        host_id: the same, of hosts.
        say: told what takes long.
    """
    seen: Hashable = kept and kept["fit_id"]
    if kept is None:
        rows = sorted(tables.items())
        seen = tuple((name, len(of), of.hash_rows().sum()) for name, of in rows)
    key = group.system, code_digest(), group.run_ids, backend, host_id, seen
    with _LOCKS.setdefault(key, Lock()):  # others fit something else meanwhile
        fit = _at_hand.pop(key, None)
        if fit is None:
            try:
                fit = (
                    _made(group, tables, known, backend, host_id, say)
                    if kept is None
                    else _loaded(group, tables, kept)
                )
            except BadInput as error:
                return error
        _at_hand[key] = fit
    for earlier in list(_at_hand)[:-_MOST_AT_HAND]:
        _at_hand.pop(earlier, None)
    return replace(fit, group=group)


_MOST_AT_HAND = 8
_LOCKS = WeakValueDictionary[Hashable, Any]()
_at_hand: dict[Hashable, Fit] = {}


def _loaded(group: FitGroup, tables: Tables, kept: Mapping[str, Any]) -> Fit:
    loaded = cache(partial(group.system.load, str(kept["parameters"]), tables))
    return Fit(group, str(kept["fit_id"]), loaded, kept["created_at"], kept["row_count"], None)


def _made(
    group: FitGroup,
    tables: Tables,
    known: pl.DataFrame,
    backend: Backend,
    host_id: str,
    say: Callable[[str], None],
) -> Fit:
    system = group.system
    say(f"fit {system.name} to {len(group.runs)} runs")
    fitted = system.fit(tables)
    wanted = set(group.run_ids)
    of_system = known.filter(system=system.name, model_version=system.version)["run_ids"]
    # In the order of a fit that saw the same runs, the same fit again is the same fit.
    run_ids = next((ids for ids in of_system.to_list() if set(ids) == wanted), group.run_ids)
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


def row_filter(system: System) -> str:
    """Return which rows of its runs a fit of a system sees, in the words of its record."""
    return f"all visible rows of these runs in {', '.join(system.tables)}"


def newest_kept_fit(
    group: FitGroup, row_count: int, host_id: str, known: pl.DataFrame
) -> Mapping[str, Any] | None:
    """Return the newest fit that is kept for a group; None: none.

    Args:
        group: what is fitted.
        row_count: of the rows that it sees.
        host_id: the host that forecasts are about.
        known: fits that are kept, as query `fits` has them.
    """
    system = group.system
    kept = known.filter(
        pl.col("made_by").list.contains(code_digest()),
        system=system.name,
        model_version=system.version,
        row_filter=row_filter(system),
        row_count=row_count,
    )
    if (elsewhere := group.elsewhere(host_id)) and "run" in system.tables:
        # The same runs tell something else to each of their hosts.
        here = {run.host_id for run in group.runs if run.run_id not in elsewhere}
        kept = kept.filter(pl.col("host_id").is_in(list(here)))
    wanted = set(group.run_ids)
    fits = [row for row in kept.to_dicts() if set(row["run_ids"]) == wanted]
    return fits[-1] if fits else None
