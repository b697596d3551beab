"""A system fitted to some runs: the fit that the history keeps, where this code made it."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from forecasting.code import code_digest
from forecasting.resting import rested_in
from models.system import Fitted, System, Tables
from networks.kept_graphs import keep_in
from studies import landed
from studies.rounds import Round
from warehouse.ledger import FitRecord
from warehouse.records import Backend, Run
from warehouse.version import code_version
from warehouse.warehouse import Warehouse

GRAPHS = "graphs"
"""The folder of a home that keeps graphs of networks."""


def fit_or_load(
    system: System, run_ids: Sequence[str], tables: Tables, warehouse: Warehouse | None = None
) -> Fitted:
    """Return a system as the history keeps it fitted to these runs, else fit it.

    A fit is kept for a system and its version, the tables it reads, the runs and rows that it saw,
    and the code that made it: a digest of the modules that the system uses, so that other changes,
    committed or not, fit nothing anew.

    Args:
        system: that is fitted.
        run_ids: the runs that the fit sees, in any order.
        tables: their rows, as `System.fit` takes them.
        warehouse: the history; None: there is none, and the system is fitted.

    Raises:
        BadInput: as `System.fit`.
    """
    kept = None if warehouse is None else load_kept(system, run_ids, tables, warehouse)
    return system.fit(tables) if kept is None else kept


def load_kept(
    system: System, run_ids: Sequence[str], tables: Tables, warehouse: Warehouse
) -> Fitted | None:
    """Return what the history keeps of `fit_or_load`, None if it has to be fitted."""
    kept = stored(system, run_ids, tables, warehouse)
    return None if kept is None else system.load(str(kept["parameters"]), tables)


def record_of(
    system: System,
    fitted: Fitted,
    run_ids: Sequence[str],
    tables: Tables,
    *,
    backend: Backend,
    host_id: str,
) -> FitRecord:
    """Return what the ledger keeps of a system that this code fitted to some runs."""
    return FitRecord(
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
        code_digest=code_digest(system),
        created_at=datetime.now(UTC),
    )


def data_hash(tables: Tables) -> str:
    """Return what names the content of the rows that a fit sees."""
    digest = sha256()
    for name, table in sorted(tables.items()):
        digest.update(f"{name}\n{table.write_csv()}".encode())
    return digest.hexdigest()[:16]


def told_apart(tables: Tables, host_id: str) -> Tables:
    """Return what a fit sees: where some runs are of other hosts, `run` says which (`elsewhere`).

    Args:
        tables: rows of raw tables.
        host_id: the host that forecasts are about.
    """
    runs = tables.get("run")
    if runs is None or (runs["host_id"] == host_id).all():
        return tables
    return {**tables, "run": runs.with_columns(elsewhere=pl.col("host_id") != host_id)}


def _here(runs: pl.DataFrame) -> list[str]:
    """Return the host that forecasts of a fit are about, of runs that `told_apart` marked."""
    return runs.filter(~pl.col("elsewhere"))["host_id"].unique().to_list()


def row_filter(system: System) -> str:
    """Return which rows of its runs a fit of a system sees, in the words of its record."""
    return f"all visible rows of these runs in {', '.join(system.tables)}"


def stored(
    system: System, run_ids: Sequence[str], tables: Tables | None, warehouse: Warehouse
) -> Mapping[str, Any] | None:
    """Return the newest fit that is kept for all of these, as query `fits` has it; None: none.

    Without `tables`, runs of which rows were loaded since count as those that the fit saw.
    """
    keep_graphs(warehouse)
    kept = warehouse.query("fits", system=system.name).filter(
        pl.col("made_by").list.contains(code_digest(system)),
        model_version=system.version,
        row_filter=row_filter(system),
    )
    if tables is not None:
        kept = kept.filter(row_count=sum(table.height for table in tables.values()))
        if (runs := tables.get("run")) is not None and "elsewhere" in runs.columns:
            # The same runs tell something else to each of their hosts.
            kept = kept.filter(pl.col("host_id").is_in(_here(runs)))
    wanted = set(run_ids)
    found = [row for row in kept.to_dicts() if set(row["run_ids"]) == wanted]
    return found[-1] if found else None


def keep_graphs(warehouse: Warehouse) -> None:
    """Keep the graphs that systems read of networks beside the history: they take long to make."""
    keep_in(warehouse.home / GRAPHS)


def pooled_runs(system: System, round_: Round) -> list[Run]:
    """Return the landed runs that one fit of a system to a whole round sees."""
    needed = {
        need: None
        for curve in round_.study.curves
        if curve.is_judged
        for need in rested_in(round_, system, curve)
    }
    return [run for need in needed if (run := round_.run_of(need))]


def landed_tables(system: System, runs: Iterable[Run], landing: Path) -> dict[str, pl.DataFrame]:
    """Return the tables that a system reads, with the rows of landed runs; no database is read."""
    found = [landed.tables(landing, run) for run in runs]
    return {name: _joined(name, found) for name in system.tables}


def _joined(name: str, found: Sequence[Mapping[str, pl.DataFrame]]) -> pl.DataFrame:
    tables = [one[name] for one in found if name in one]
    return pl.concat(tables) if tables else landed.no_rows(name)
