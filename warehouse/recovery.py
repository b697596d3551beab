"""Bringing back a home whose warehouse, its copy or its journal was damaged or is gone."""

import os
import shutil
from pathlib import Path

import duckdb

from warehouse.connection import connect, presence
from warehouse.durable_files import scratch, sync
from warehouse.home import HISTORY, JOURNAL, MAIN
from warehouse.journal import LoggedEntry, read
from warehouse.publication import ensure_warehouse, is_current, same_bytes
from warehouse.records import DamagedFile, StepcastError, error_context
from warehouse.upkeep import (
    bring_up_to_date,
    contents,
    reconcile,
    rewrite_damaged_journal,
    set_aside,
)


def recover(home: Path) -> list[str]:
    """Read the whole warehouse and bring back what is damaged or gone; return lines that say so.

    What is damaged is set aside in `damaged/`. Fits, predictions and the chain come from the
    journal, or where there is none from history.duckdb; the rows of runs come with the next load.

    Raises:
        WarehouseBusy: another process has the damaged file open.
        StepcastError: a file could not be moved or written.
    """
    main, lines = home / MAIN, list[str]()
    failure = f"{home} could not be mended; free disk space or give permission, and try again"
    with error_context(failure, OSError, kind=StepcastError):
        if main.exists() and _is_damaged(home):
            lines = _put_aside(home)
        if not main.exists():
            return lines + _bring_back(home)
        with presence(home), connect(main) as connection:
            bring_up_to_date(connection, main)
            if faults := rewrite_damaged_journal(connection, home):
                lines.append(f"{JOURNAL}/ was damaged ({faults[0]}): written anew of {MAIN}")
    return lines


def _is_damaged(home: Path) -> bool:
    with presence(home):
        return bool(_damage(home / MAIN) or _is_unlike_published(home))


def _put_aside(home: Path) -> list[str]:
    """Move a damaged warehouse away; return a line that says so, none if it is sound after all."""
    with presence(home, alone=True):
        main = home / MAIN
        why = _damage(main)
        if not why and _is_unlike_published(home):
            why = f"its bytes are not those of {HISTORY}, a copy that nothing has followed"
        if not why:
            return []  # another process was here first
        away = set_aside(home, [main, main.with_name(main.name + ".wal")], why)
    return [f"{MAIN} was damaged; it is in {away} now, with the reason"]


def _bring_back(home: Path) -> list[str]:
    """Make the warehouse of the journal, or of its copy; a new home gets neither."""
    main, history = home / MAIN, home / HISTORY
    origin, known = (
        f"{JOURNAL}/",
        any(isinstance(entry, LoggedEntry) for entry in read(home / JOURNAL)),
    )
    if not known and history.exists() and not _damage(history):
        origin, known = HISTORY, True
        with scratch(home) as fresh:
            shutil.copyfile(history, fresh)
            sync(fresh)
            os.rename(fresh, main)
            sync(home)
    if not known:
        return []
    ensure_warehouse(main)
    with presence(home), connect(main) as connection:
        faults: tuple[str, ...] = ()
        if origin == HISTORY:
            bring_up_to_date(connection, main)
        else:
            faults = reconcile(connection, home)
        row = connection.execute(
            "SELECT (SELECT count(*) FROM fit.fit), (SELECT count(*) FROM pred.ledger)"
        ).fetchone()
    assert row is not None
    lines = [f"{row[0]:,} fits and {row[1]:,} predictions are back from {origin}"]
    if faults:
        where = "; ".join(faults)
        lines.append(f"{JOURNAL}/ was damaged too, and what it had there is lost: {where}")
    return lines


def _is_unlike_published(home: Path) -> bool:
    """Tell whether the copy of what the warehouse holds is sound and of other bytes.

    The checksums of DuckDB's blocks do not tell where equal words have changed alike.
    """
    main, history = home / MAIN, home / HISTORY
    if not is_current(main, history) or same_bytes(main, history):
        return False
    return not _damage(history)


def _damage(path: Path) -> str:
    """Return what is damaged in a database, after all of it was read; nothing if it is sound."""
    try:
        with connect(path, read_only=path.name == HISTORY) as connection:
            contents(connection)
            if path.name == MAIN:
                _read_indexes(connection)
    except DamagedFile as error:
        return str(error.__cause__)
    return ""


def _read_indexes(connection: duckdb.DuckDBPyConnection) -> None:
    """Look all keys up in the indexes of primary keys, which no other statement reads whole."""
    keyed = connection.execute(
        "SELECT DISTINCT schema_name, table_name FROM duckdb_constraints() "
        "WHERE constraint_type = 'PRIMARY KEY' AND database_name = current_database() ORDER BY ALL"
    ).fetchall()
    connection.begin()
    for schema, table in keyed:
        name = f'"{schema}"."{table}"'
        connection.execute(f"INSERT OR IGNORE INTO {name} SELECT * FROM {name}")
    connection.rollback()
