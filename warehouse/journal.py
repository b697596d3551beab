"""The journal: what only the warehouse knows, in files beside it, so that it can be built again.

Fits, predictions, the chain and all else that no landed run tells is written twice: to the tables
of `TABLES`, and to `journal/000001.jsonl`, …, one line of JSON for each transaction:

    [number, SHA-256 of the line before, [[table, {column: [value, …], …}], …]]

A line is on disk before its transaction is committed, and the transaction holds the line's number
(`meta.journal`). So a kill between them loses nothing and doubles nothing: whoever opens the
warehouse next writes what the line has (`warehouse.upkeep`). Columns keep their names in later
migrations, and tables of `TABLES` are changed only through `entry`.
"""

import hashlib
import itertools
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl

from warehouse import limits
from warehouse.connection import literal, run, transaction
from warehouse.durable_files import Appender, sync
from warehouse.home import JOURNAL
from warehouse.records import StepcastError, error_context

TABLES = (
    "pred.price_snapshot",
    "pred.asked_scenario",
    "meta.loaded",
    "meta.reloaded",
    "meta.remade",
    "fit.fit",
    "pred.ledger",
    "pred.recommendation",
    "pred.sealed",
)
"""Tables that landed runs do not tell."""
_GONE = ("pred.system", "pred.decision", "pred.synthetic_interval")
"""Tables that journals of earlier editions have too."""
NOT_LOADED = ""
"""The signature of a run in meta.loaded whose rows are not in raw.* yet."""
Columns = Mapping[str, Sequence[object]]


@dataclass(frozen=True)
class Position:
    """The newest entry: its number, the SHA-256 of its line, and where that ends in all files."""

    number: int
    sha256: str
    size_bytes: int


@dataclass(frozen=True)
class LoggedEntry:
    """An entry that was read: where it is, and the rows of tables that it holds."""

    position: Position
    rows: Sequence[tuple[str, Columns]]


class JournalTransaction:
    """Rows of one transaction, for the tables and for the journal."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self.connection = connection
        self._rows: list[tuple[str, Columns]] = []
        self._undo: tuple[Path, Position] | None = None

    def insert(self, table: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Insert rows into one of `TABLES`; columns that they lack are NULL."""
        if rows:
            typed = rows_of(self.connection, table, rows)
            insert(self.connection, table, typed)
            self._rows.append((table, {name: [row[name] for row in typed] for name in typed[0]}))

    def log(self) -> None:
        """Append the rows to the journal, and note in the database that it holds them.

        Raises:
            StepcastError: the journal could not be written; it is as before.
        """
        home = _home(self.connection)
        if home is None or not self._rows:
            return
        before = position(self.connection)
        self._undo = home / JOURNAL, before
        remember(self.connection, append(home / JOURNAL, before, self._rows))

    def undo(self) -> None:
        """Take back what was appended: its transaction was not committed."""
        if self._undo is not None:
            with suppress(OSError):
                cut(*self._undo)


@contextmanager
def entry(connection: duckdb.DuckDBPyConnection) -> Iterator[JournalTransaction]:
    """Begin a transaction whose rows are in the journal before it is committed.

    Raises:
        StepcastError: the journal could not be written; nothing was committed.
    """
    made = JournalTransaction(connection)
    try:
        with transaction(connection):
            yield made
            made.log()
    except BaseException:
        made.undo()
        raise


def _in_json(kind: str) -> str | list[str]:
    """Return a type of DuckDB as `from_json` has it."""
    if kind.endswith("[]"):
        return [kind.removesuffix("[]")]
    return "VARCHAR" if kind == "JSON" else kind


def insert(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, object]]
) -> None:
    """Insert rows with the same columns into one of `TABLES`; not into the journal.

    DuckDB reads them as JSON: to take a table of Arrow, it imports pandas, in 0.3 s.
    """
    if not rows:
        return
    described = connection.execute(f"DESCRIBE {table}").fetchall()
    kinds = {name: _in_json(str(kind)) for name, kind, *_ in described if name in rows[0]}
    texts, form = literal(json.dumps(list(rows), default=str)), literal(json.dumps([kinds]))
    each = f"SELECT unnest(row) FROM (SELECT unnest(from_json({texts}, {form})) AS row)"
    connection.execute(f"INSERT INTO {table} BY NAME {each}")


def rows_of(
    connection: duckdb.DuckDBPyConnection, table: str, rows: Sequence[Mapping[str, object]]
) -> list[dict[str, Any]]:
    """Return rows in the types of a table; Arrow would import pandas to make them."""
    schema = connection.execute(f"SELECT * FROM {table} LIMIT 0").pl().schema
    return pl.DataFrame(rows, schema, orient="row").to_dicts()


def position(connection: duckdb.DuckDBPyConnection) -> Position:
    """Return which entry of the journal is the newest in the database."""
    row = connection.execute("SELECT entry, sha256, size_bytes FROM meta.journal").fetchone()
    return Position(0, "", 0) if row is None else Position(int(row[0]), str(row[1]), int(row[2]))


def remember(connection: duckdb.DuckDBPyConnection, newest: Position) -> None:
    """Note which entry is the newest in the database."""
    run(
        connection,
        "UPDATE meta.journal SET entry = $number, sha256 = $sha256, size_bytes = $size_bytes",
        vars(newest),
    )


def append(folder: Path, newest: Position, rows: Sequence[tuple[str, Columns]]) -> Position:
    """Append an entry to a journal whose newest one is given; it is on disk then.

    Raises:
        StepcastError: it could not be written; the journal is as before.
    """
    line = json.dumps(
        [newest.number + 1, newest.sha256, rows], separators=(",", ":"), default=in_utc
    )
    if len(line) >= limits.JOURNAL_LINE:
        raise StepcastError(
            f"{len(line):,} bytes are too many for one entry of {folder}, which may have "
            f"{limits.JOURNAL_LINE:,}; write less at once"
        )
    failure = f"{folder} could not be written; free disk space, what was there before is whole"
    with error_context(failure, OSError, kind=StepcastError):
        if not folder.exists():
            folder.mkdir()
            sync(folder.parent)
        with Appender(_segment(folder)) as segment:
            segment.append([line])
            segment.sync()
    sha256 = hashlib.sha256(line.encode()).hexdigest()
    return Position(newest.number + 1, sha256, newest.size_bytes + len(line) + 1)


def cut(folder: Path, newest: Position) -> None:
    """Cut what follows an entry.

    Raises:
        OSError: a file could not be cut.
    """
    start = 0
    for path in segments(folder):
        size = path.stat().st_size
        if start + size > newest.size_bytes:
            os.truncate(path, max(0, newest.size_bytes - start))
        start += size


def segments(folder: Path) -> list[Path]:
    """Return the files of a journal, in order."""
    return sorted(folder.glob("[0-9]*.jsonl"))


def size_bytes(folder: Path) -> int:
    """Return how long all files of a journal are."""
    return sum(path.stat().st_size for path in segments(folder))


def read(folder: Path) -> Iterator[LoggedEntry | str]:
    """Yield the entries of a journal, in order; in place of one that is damaged, what is wrong."""
    previous: Position | None = None
    for where, line, end in _lines(folder):
        logged, fault = _entry(line, end, previous)
        if fault:
            yield f"{where} {fault}"
        if logged is not None:
            previous = logged.position
            yield logged


def _lines(folder: Path) -> Iterator[tuple[str, bytes, int]]:
    """Yield where each line is, the line, and where it ends in all files."""
    end = 0
    for path in segments(folder):
        with path.open("rb") as file:
            for count in itertools.count(1):
                if not (line := file.readline(limits.JOURNAL_LINE)):
                    break
                end += len(line)
                yield f"line {count} of {path.name}", line, end


def _entry(line: bytes, end: int, before: Position | None) -> tuple[LoggedEntry | None, str]:
    """Return the entry of a line, None if it is none, and what is wrong."""
    try:
        number, previous, rows = json.loads(line)
        tables = [(str(table), _columns(columns)) for table, columns in rows if table not in _GONE]
        if not isinstance(number, int):
            raise TypeError("no number of an entry")
        at = Position(number, hashlib.sha256(line.removesuffix(b"\n")).hexdigest(), end)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None, "is no entry"
    if not line.endswith(b"\n"):
        return None, "has no end"
    if unknown := {table for table, _ in tables} - set(TABLES):
        return None, f"names a table that no journal has: {min(unknown)[:80]}"
    if before is None or (at.number, previous) == (before.number + 1, before.sha256):
        return LoggedEntry(at, tables), ""
    if at.number <= before.number:
        return None, f"has the number {at.number} after {before.number}"
    return LoggedEntry(at, tables), "does not follow the entry before it, which is damaged or gone"


def _columns(columns: Mapping[str, object]) -> Columns:
    """Return columns, which are lists of one length.

    Raises:
        TypeError, ValueError: they are not.
    """
    lists = {str(name): values for name, values in columns.items() if isinstance(values, list)}
    if len(lists) != len(columns) or len({len(values) for values in lists.values()}) > 1:
        raise ValueError("no columns of a table")
    return lists


def _segment(folder: Path) -> Path:
    """Return the file that the next entry belongs into."""
    names = segments(folder)
    if not names:
        return folder / "000001.jsonl"
    if names[-1].stat().st_size < limits.JOURNAL_SEGMENT:
        return names[-1]
    return folder / f"{int(names[-1].stem) + 1:06}.jsonl"


def _home(connection: duckdb.DuckDBPyConnection) -> Path | None:
    """Return the folder of the database's file; None if it has none."""
    row = connection.execute(
        "SELECT path FROM duckdb_databases() WHERE database_name = current_database()"
    ).fetchone()
    return None if row is None or row[0] is None else Path(row[0]).parent


def in_utc(value: object) -> str:
    """Return a time as JSON has it.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    raise TypeError(f"{value!r} has no place in the journal")
