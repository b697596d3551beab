"""Keeping a warehouse for years: backups, space, schema version, and its journal replayed."""

import itertools
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from warehouse import chain, journal
from warehouse.connection import connect, literal, presence, transaction
from warehouse.durable_files import remove, scratch, sweep, sync
from warehouse.home import BACKUPS, DAMAGED, HISTORY, JOURNAL, MAIN
from warehouse.journal import NOT_LOADED, TABLES, Columns, LoggedEntry, Position
from warehouse.landing import REASON
from warehouse.publication import copy, migrate, publish
from warehouse.records import BadInput, StepcastError, error_context


@contextmanager
def open_warehouse(
    home: Path, *, alone: bool = False, read_only: bool = False, folders: Sequence[Path] = ()
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open the warehouse that is in `home`, as it is: nothing is made and nothing migrated.

    `folders` are as for `connect`.

    Raises:
        BadInput: there is none.
        WarehouseBusy: another process holds it.
    """
    main = home / MAIN
    if not main.exists():
        raise BadInput(f"no warehouse in {home} yet; run `make demo` or `stepcast run`")
    with (
        presence(home, alone=alone),
        connect(main, read_only=read_only, folders=folders) as connection,
    ):
        yield connection


def backup(home: Path, folder: Path | None = None) -> Path:
    """Copy the warehouse, as one moment left it, into a folder (`home`/backups), and return where.

    Raises:
        StepcastError: the copy could not be written, or does not hold what the warehouse holds;
            nothing of it is left.
    """
    with open_warehouse(home) as connection:
        return _backup(connection, home / MAIN, folder or home / BACKUPS)


def compact(home: Path) -> tuple[int, int]:
    """Write the warehouse anew without the space that deleted rows left, and publish it.

    Returns the bytes of the file before and after.

    Raises:
        WarehouseBusy: another process has the warehouse open.
        StepcastError: the new file could not be written, or differs; the old one stays.
    """
    main = home / MAIN
    sweep(home)
    with open_warehouse(home, alone=True, folders=[home]) as connection, scratch(home) as fresh:
        connection.execute("CHECKPOINT")
        before = main.stat().st_size
        _rewrite(connection, fresh)
        _check_same_rows(connection, fresh)
        sync(fresh)
        os.replace(fresh, main)
        sync(home)
    with open_warehouse(home) as connection:
        publish(connection, main, home / HISTORY)
    return before, main.stat().st_size


def bring_up_to_date(connection: duckdb.DuckDBPyConnection, main: Path) -> None:
    """Apply the migrations that `main` lacks; before the first, copy it to backups/ beside it.

    Then bring it and its journal together.

    Raises:
        BadInput: newer code made it.
        StepcastError: the backup or a migration failed.
    """
    migrate(connection, before_change=lambda: _backup(connection, main, main.parent / BACKUPS))
    reconcile(connection, main.parent)


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
    by_table = {}
    for schema, table in tables:
        name = f'"{schema}"."{table}"'
        row = connection.execute(
            f"SELECT count(*), coalesce(sum(hash(whole)), 0) FROM {name} AS whole"
        ).fetchone()
        assert row is not None
        by_table[f"{schema}.{table}"] = (int(row[0]), int(row[1]))
    return by_table


def _backup(connection: duckdb.DuckDBPyConnection, main: Path, folder: Path) -> Path:
    connection.execute("CHECKPOINT")
    failure = f"{main} was not backed up to {folder}"
    with error_context(failure, OSError, kind=StepcastError):
        folder.mkdir(parents=True, exist_ok=True)
        sweep(folder)
        with scratch(folder) as fresh:
            copy(main, fresh, failure)
            sync(fresh)
            _check_same_rows(connection, fresh)
            target = _with_time(folder, "warehouse-", ".duckdb")
            os.rename(fresh, target)
        sync(folder)
    return target


def _with_time(folder: Path, before: str, after: str = "") -> Path:
    """Return a name with the time, also where the clock has shown that time before."""
    stem = f"{before}{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (f"{stem}{f'-{count}' if count > 1 else ''}{after}" for count in itertools.count(1))
    return next(folder / name for name in names if not (folder / name).exists())


def _rewrite(connection: duckdb.DuckDBPyConnection, fresh: Path) -> None:
    row = connection.execute("SELECT current_database()").fetchone()
    assert row is not None
    connection.execute(f"ATTACH {literal(str(fresh))} AS fresh")
    connection.execute(f'COPY FROM DATABASE "{row[0]}" TO fresh')
    connection.execute("CHECKPOINT fresh")
    connection.execute("DETACH fresh")


def _check_same_rows(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Raise StepcastError unless the file at `path` holds the same rows, the ledger's hashes too.

    So it can copy what is broken or older than this code, and the copy says so when checked.
    """
    expected = contents(connection)
    with connect(path, read_only=True) as other:
        copied = contents(other)
    for table in sorted({*expected, *copied}):
        if expected.get(table) != copied.get(table):
            raise StepcastError(
                f"the copy was removed: of {table} it has (rows, sum of hashes) "
                f"{copied.get(table)}, expected {expected.get(table)}; check the disk and try again"
            )


# The database and its journal brought together: each gets from the other what it lacks.


_ROWS = 10_000
"""Of a table in one entry where the journal is made of the database."""


def reconcile(connection: duckdb.DuckDBPyConnection, home: Path) -> tuple[str, ...]:
    """Write what the journal of `home` has and the database lacks, or the other way round.

    Returns what was damaged in the journal.

    The caller holds the database alone. A process may have been killed after it wrote an entry and
    before it committed it; the database may be new, or a copy from before; there may be no journal
    yet, or it was damaged.

    Raises:
        BadInput: each has what the other lacks.
        StepcastError: one could not be written.
    """
    folder, known = home / JOURNAL, journal.position(connection)
    is_same_size = journal.size_bytes(folder) == known.size_bytes
    if is_same_size and (known.number or _is_empty(connection)):
        return ()
    entries = [entry.position for entry in journal.read(folder) if isinstance(entry, LoggedEntry)]
    if not entries or entries[-1].number < known.number:
        rewrite_journal(connection, home, f"it ended before {MAIN} did")
        return ()
    is_part = any(
        known.number == entry.number and known.sha256 == entry.sha256 for entry in entries
    )
    if not is_part and (known.number or not _is_empty(connection)):
        raise BadInput(
            f"{home / MAIN} and {folder} each hold what the other lacks; move {MAIN} away and run "
            f"`stepcast load` to go on with {JOURNAL}/, or move {JOURNAL}/ away to go on with "
            f"{MAIN}"
        )
    _replay(connection, folder, known)
    return rewrite_damaged_journal(connection, home)


def rewrite_damaged_journal(connection: duckdb.DuckDBPyConnection, home: Path) -> tuple[str, ...]:
    """Write the journal anew if it is damaged, of a database that has all of it; return how it was.

    Raises:
        StepcastError: it could not be written.
    """
    faults = tuple(entry for entry in journal.read(home / JOURNAL) if isinstance(entry, str))
    if faults or journal.size_bytes(home / JOURNAL) != journal.position(connection).size_bytes:
        rewrite_journal(connection, home, "; ".join(faults[:10]) or "a part of it was gone")
    return faults


def rewrite_journal(connection: duckdb.DuckDBPyConnection, home: Path, why: str) -> None:
    """Write the journal of all that the database holds; one that is there is set aside.

    Its numbers go on where the database is, so that an older one is never taken for it.

    Raises:
        StepcastError: it could not be written.
    """
    newest = replace(journal.position(connection), size_bytes=0)
    failure = f"{home / JOURNAL} could not be written; free disk space, what was there is whole"
    with error_context(failure, OSError, kind=StepcastError):
        with scratch(home) as fresh:
            fresh.mkdir()
            for part in _contents(connection):
                newest = journal.append(fresh, newest, [part])
            with transaction(connection):
                journal.remember(connection, newest)
            # A kill before the new one has its name: the database is ahead, so it is written again.
            if (home / JOURNAL).exists():
                set_aside(home, [home / JOURNAL], why)
            fresh.rename(home / JOURNAL)
        sync(home)


def set_aside(home: Path, paths: list[Path], why: str) -> Path:
    """Move files or folders of a home out of the way, with the reason; return where they are.

    Raises:
        OSError: the machine cannot.
    """
    target = _with_time(home / DAMAGED, "")
    target.mkdir(parents=True)
    for path in paths:
        if path.exists():
            shutil.move(path, target / path.name)
    (target / REASON).write_text(why + "\n")
    sync(home)
    return target


def _replay(connection: duckdb.DuckDBPyConnection, folder: Path, known: Position) -> None:
    """Write the entries after `known`, each in a transaction; cut what is no entry at the end."""
    newest = known
    for entry in journal.read(folder):
        if isinstance(entry, str) or entry.position.number <= known.number:
            continue
        with transaction(connection):
            for table, columns in entry.rows:
                _insert(connection, table, columns)
            _move_head(connection, entry)
            journal.remember(connection, entry.position)
        newest = entry.position
    journal.cut(folder, newest)


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: Columns) -> None:
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if table == "meta.loaded":
        rows = [row | {"signature": NOT_LOADED} for row in rows]
    elif table == "meta.reloaded":
        connection.executemany(
            "UPDATE meta.loaded SET signature = ?, loaded_at = ? WHERE run_id = ?",
            [[NOT_LOADED, row["loaded_at"], row["run_id"]] for row in rows],
        )
    journal.insert(connection, table, rows)


def _move_head(connection: duckdb.DuckDBPyConnection, entry: LoggedEntry) -> None:
    """Let the chain end with the newest row of an entry, if it does not reach further."""
    links = [
        link
        for table, columns in entry.rows
        if table in chain.KEYS
        for link in zip(columns["sequence"], columns["sha256"], strict=True)
    ]
    if links:
        sequence, sha256 = max(links)
        connection.execute(
            "UPDATE meta.chain SET sequence = ?, sha256 = ? WHERE sequence < ?",
            [sequence, sha256, sequence],
        )


def _is_empty(connection: duckdb.DuckDBPyConnection) -> bool:
    """Tell whether a database has nothing but what its schema brings."""
    return not any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone() for table in TABLES
    )


def _contents(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Columns]]:
    for table in TABLES:
        order = "ORDER BY sequence" if table in chain.KEYS else ""
        rows = connection.execute(f"SELECT * FROM {table} {order}").to_arrow_reader(_ROWS)
        for batch in rows:
            if batch.num_rows:
                yield table, batch.to_pydict()
