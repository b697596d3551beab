"""The database and its journal brought together: each gets from the other what it lacks."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from warehouse import chain, journal
from warehouse.connection import transaction
from warehouse.durable import remove, sync, temporary
from warehouse.home import DAMAGED, JOURNAL, MAIN
from warehouse.journal import NOT_LOADED, TABLES, Columns, Logged, Position
from warehouse.quarantine import REASON
from warehouse.records import BadInput, StepcastError

_ROWS = 10_000
"""Of a table in one entry where the journal is made of the database."""


@dataclass(frozen=True)
class Replayed:
    """How many entries of the journal went into the database, and what was damaged in it."""

    entries: int = 0
    faults: tuple[str, ...] = ()


def reconcile(connection: duckdb.DuckDBPyConnection, home: Path) -> Replayed:
    """Write what the journal of `home` has and the database lacks, or the other way round.

    The caller holds the database alone. A process may have been killed after it wrote an entry and
    before it committed it; the database may be new, or a copy from before; there may be no journal
    yet, or it was damaged.

    Raises:
        BadInput: each has what the other lacks.
        StepcastError: one could not be written.
    """
    folder, known = home / JOURNAL, journal.position(connection)
    if journal.size_bytes(folder) == known.size_bytes and known.number:
        return Replayed()
    entries = [one.position for one in journal.read(folder) if isinstance(one, Logged)]
    if not entries or entries[-1].number < known.number:
        write_anew(connection, home, f"it ended before {MAIN} did")
        return Replayed()
    is_part = any(known.number == one.number and known.sha256 == one.sha256 for one in entries)
    if not is_part and (known.number or not _is_empty(connection)):
        raise BadInput(
            f"{home / MAIN} and {folder} each hold what the other lacks; move {MAIN} away and run "
            f"`stepcast load` to go on with {JOURNAL}/, or move {JOURNAL}/ away to go on with "
            f"{MAIN}"
        )
    replayed = _replay(connection, folder, known)
    if faults := mend(connection, home):
        return Replayed(replayed, faults)
    return Replayed(replayed)


def mend(connection: duckdb.DuckDBPyConnection, home: Path) -> tuple[str, ...]:
    """Write the journal anew if it is damaged, of a database that has all of it; return how it was.

    Raises:
        StepcastError: it could not be written.
    """
    faults = tuple(one for one in journal.read(home / JOURNAL) if isinstance(one, str))
    if faults or journal.size_bytes(home / JOURNAL) != journal.position(connection).size_bytes:
        write_anew(connection, home, "; ".join(faults[:10]) or "a part of it was gone")
    return faults


def write_anew(connection: duckdb.DuckDBPyConnection, home: Path, why: str) -> None:
    """Write the journal of all that the database holds; one that is there is set aside.

    Its numbers go on where the database is, so that an older one is never taken for it.

    Raises:
        StepcastError: it could not be written.
    """
    fresh = temporary(home)
    newest = replace(journal.position(connection), size_bytes=0)
    try:
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
    except OSError as error:
        raise StepcastError(
            f"{home / JOURNAL} could not be written: {error.strerror or error}; free disk space "
            "and try again: what was there before is whole"
        ) from error
    finally:
        remove(fresh)


def set_aside(home: Path, paths: list[Path], why: str) -> Path:
    """Move files or folders of a home out of the way, with the reason; return where they are.

    Raises:
        OSError: the machine cannot.
    """
    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    names = (f"{stem}{f'-{count}' if count > 1 else ''}" for count in range(1, 10_000))
    target = next(home / DAMAGED / name for name in names if not (home / DAMAGED / name).exists())
    target.mkdir(parents=True)
    for path in paths:
        if path.exists():
            shutil.move(path, target / path.name)
    (target / REASON).write_text(why + "\n")
    sync(home)
    return target


def _replay(connection: duckdb.DuckDBPyConnection, folder: Path, known: Position) -> int:
    """Write the entries after `known`, each in a transaction; cut what is no entry at the end."""
    count, newest = 0, known
    for one in journal.read(folder):
        if isinstance(one, str) or one.position.number <= known.number:
            continue
        with transaction(connection):
            for table, columns in one.rows:
                _insert(connection, table, columns)
            _move_head(connection, one)
            journal.remember(connection, one.position)
        count, newest = count + 1, one.position
    journal.cut(folder, newest)
    return count


def _insert(connection: duckdb.DuckDBPyConnection, table: str, columns: Columns) -> None:
    rows = pa.Table.from_pydict(dict(columns), _read_from_json(connection, table, columns))
    if table == "meta.loaded":
        rows = rows.set_column(
            rows.schema.get_field_index("signature"),
            "signature",
            pa.repeat(pa.scalar(NOT_LOADED), len(rows)),
        )
    elif table == "meta.reloaded":
        connection.executemany(
            "UPDATE meta.loaded SET signature = ?, loaded_at = ? WHERE run_id = ?",
            [[NOT_LOADED, row["loaded_at"], row["run_id"]] for row in rows.to_pylist()],
        )
    elif table == "pred.system":  # those that the schema has come with it
        known = connection.execute("SELECT name FROM pred.system").to_arrow_table()["name"]
        rows = rows.filter(pc.invert(pc.is_in(rows["name"], known)))
    journal.insert(connection, table, rows)


def _read_from_json(
    connection: duckdb.DuckDBPyConnection, table: str, columns: Columns
) -> pa.Schema:
    """Return the types of columns as JSON has them: times are texts, which DuckDB reads."""
    fields = [field for field in journal.schema_of(connection, table) if field.name in columns]
    return pa.schema(
        [
            pa.field(field.name, pa.string()) if pa.types.is_timestamp(field.type) else field
            for field in fields
        ]
    )


def _move_head(connection: duckdb.DuckDBPyConnection, entry: Logged) -> None:
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
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()
        for table in TABLES
        if table != "pred.system"
    )


def _contents(connection: duckdb.DuckDBPyConnection) -> Iterator[tuple[str, Columns]]:
    for table in TABLES:
        order = "ORDER BY sequence" if table in chain.KEYS else ""
        rows = connection.execute(f"SELECT * FROM {table} {order}").to_arrow_reader(_ROWS)
        for batch in rows:
            if batch.num_rows:
                yield table, batch.to_pydict()
