"""Keeping a warehouse for years: copies of it, its space, its schema version."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from warehouse.connection import PATIENCE_S, connect, presence
from warehouse.durable import remove, scratch, sweep, sync
from warehouse.home import BACKUPS, HISTORY, MAIN
from warehouse.migrations import migrate
from warehouse.publication import copy, publish
from warehouse.records import BadInput, StepcastError
from warehouse.replay import reconcile


@dataclass(frozen=True)
class Migration:
    """Schema versions before and after, and the copy from before; None where nothing changed."""

    before: int
    after: int
    backup: Path | None


@contextmanager
def opened(
    home: Path, *, alone: bool = False, read_only: bool = False, patience_s: float = PATIENCE_S
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the warehouse that is in `home`, as it is: nothing is made and nothing migrated.

    Raises:
        BadInput: there is none.
        WarehouseBusy: another process held it for `patience_s` seconds.
    """
    main = home / MAIN
    if not main.exists():
        raise BadInput(f"no warehouse in {home} yet; run `make demo` or `stepcast run`")
    with (
        presence(home, alone=alone, patience_s=patience_s),
        connect(main, read_only=read_only, patience_s=patience_s) as connection,
    ):
        yield connection


def backup(home: Path, folder: Path | None = None, *, patience_s: float = PATIENCE_S) -> Path:
    """Copy the warehouse, as one moment left it, into a folder (`home`/backups), and return where.

    Raises:
        StepcastError: the copy could not be written, or does not hold what the warehouse holds;
            nothing of it is left.
    """
    with opened(home, patience_s=patience_s) as connection:
        return _backup(connection, home / MAIN, folder or home / BACKUPS)


def compact(home: Path, *, patience_s: float = PATIENCE_S) -> tuple[int, int]:
    """Write the warehouse anew without the space that deleted rows left, and publish it.

    Returns the bytes of the file before and after.

    Raises:
        WarehouseBusy: another process has the warehouse open.
        StepcastError: the new file could not be written, or differs; the old one stays.
    """
    main = home / MAIN
    sweep(home)
    with opened(home, alone=True, patience_s=patience_s) as connection, scratch(home) as fresh:
        connection.execute("CHECKPOINT")
        before = main.stat().st_size
        _rewrite(connection, fresh)
        _check_same_rows(connection, fresh)
        sync(fresh)
        os.replace(fresh, main)
        sync(home)
    with opened(home, patience_s=patience_s) as connection:
        publish(connection, main, home / HISTORY)
    return before, main.stat().st_size


def migrate_now(home: Path, *, patience_s: float = PATIENCE_S) -> Migration:
    """Bring the warehouse's schema up to date, after a backup, and publish it.

    Raises:
        BadInput: newer code made it.
        StepcastError: the backup or a migration failed.
    """
    with opened(home, patience_s=patience_s) as connection:
        done = bring_up_to_date(connection, home / MAIN)
        publish(connection, home / MAIN, home / HISTORY)
    return done


def bring_up_to_date(connection: duckdb.DuckDBPyConnection, main: Path) -> Migration:
    """Apply the migrations that `main` lacks; before the first, copy it to backups/ beside it.

    Then bring it and its journal together.
    """
    copies: list[Path] = []

    def keep() -> None:
        copies.append(_backup(connection, main, main.parent / BACKUPS))

    before, after = migrate(connection, before_change=keep)
    reconcile(connection, main.parent)
    return Migration(before, after, copies[0] if copies else None)


def drop_spilled(main: Path) -> None:
    """Remove what a killed load spilled to disk; only for who holds `main` and has spilled nothing.

    DuckDB itself leaves those files where they are.
    """
    remove(main.with_name(main.name + ".tmp"))


def contents(connection: duckdb.DuckDBPyConnection) -> Mapping[str, tuple[int, int]]:
    """Return the number of rows of every table, and a sum of their hashes, whatever their order."""
    tables = connection.execute(
        "SELECT schema_name, table_name FROM duckdb_tables() "
        "WHERE database_name = current_database() AND NOT temporary ORDER BY ALL"
    ).fetchall()
    found = {}
    for schema, table in tables:
        name = f'"{schema}"."{table}"'
        row = connection.execute(
            f"SELECT count(*), coalesce(sum(hash(whole)), 0) FROM {name} AS whole"
        ).fetchone()
        assert row is not None
        found[f"{schema}.{table}"] = (int(row[0]), int(row[1]))
    return found


def _backup(connection: duckdb.DuckDBPyConnection, main: Path, folder: Path) -> Path:
    connection.execute("CHECKPOINT")
    failure = f"{main} was not backed up to {folder}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        with scratch(folder) as fresh:
            copy(main, fresh, failure)
            sync(fresh)
            _check_same_rows(connection, fresh)
            target = _named(folder)
            os.rename(fresh, target)
        sync(folder)
    except OSError as error:
        raise StepcastError(f"{failure}: {error}") from error
    return target


def _named(folder: Path) -> Path:
    """Return a name with the time, also where the clock has shown that time before."""
    stem = f"{datetime.now(UTC):warehouse-%Y%m%dT%H%M%SZ}"
    names = (f"{stem}{f'-{count}' if count > 1 else ''}.duckdb" for count in range(1, 10_000))
    return next(folder / name for name in names if not (folder / name).exists())


def _rewrite(connection: duckdb.DuckDBPyConnection, fresh: Path) -> None:
    quoted = str(fresh).replace("'", "''")
    row = connection.execute("SELECT current_database()").fetchone()
    assert row is not None
    connection.execute(f"ATTACH '{quoted}' AS fresh")
    connection.execute(f'COPY FROM DATABASE "{row[0]}" TO fresh')
    connection.execute("CHECKPOINT fresh")
    connection.execute("DETACH fresh")


def _check_same_rows(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise StepcastError unless the file at `path` holds the same rows, the ledger's hashes too.

    So it can copy what is broken or older than this code, and the copy says so when checked.
    """
    expected = contents(connection)
    with connect(path, read_only=True) as other:
        found = contents(other)
    for table in sorted({*expected, *found}):
        if expected.get(table) != found.get(table):
            raise StepcastError(
                f"the copy was removed: of {table} it has (rows, sum of hashes) "
                f"{found.get(table)}, expected {expected.get(table)}; check the disk and try again"
            )
