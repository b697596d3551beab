"""The chain: loads, fits, predictions and recommendations in the order they entered the warehouse.

Every such row has a number, counted from 1 over all of their tables, and the SHA-256 of its content
and of the row before it. Clocks may jump; the numbers do not, so they decide what was predicted
before it was known, and the hashes show any row that was changed, removed, put in or moved later.
A load holds the SHA-256 of what landed, so that measured rows can be compared with it.
"""

import hashlib
import heapq
import json
from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType

import duckdb

from warehouse.connection import first_line, run
from warehouse.journal import JournalTransaction, in_utc, rows_of
from warehouse.records import BadInput, StepcastError

KEYS: Mapping[str, str] = MappingProxyType(
    {
        "meta.loaded": "run_id",
        "meta.reloaded": "run_id",
        "fit.fit": "fit_id",
        "pred.ledger": "prediction_id",
        "pred.recommendation": "recommendation_id",
    }
)
"""The chained tables, and the column that names a row of each."""

_MADE = frozenset({"sequence", "sha256"})
# A run that changes is loaded again, and keeps its place in the chain.
_MUTABLE = frozenset({"signature", "loaded_at"})
_BATCH = 10_000


def append(entry: JournalTransaction, table: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Append rows to a chained table, in their order, with the transaction of `entry`.

    Columns that `rows` lack are NULL.

    Raises:
        BadInput: a constraint of the table refuses a row.
    """
    if not rows:
        return
    sequence, sha256 = head(entry.connection)
    made: list[dict[str, object]] = []
    for typed in rows_of(entry.connection, table, rows):
        row = {name: value for name, value in typed.items() if name not in _MADE}
        sequence, sha256 = sequence + 1, _digest(sha256, table, row)
        made.append(row | {"sequence": sequence, "sha256": sha256})
    try:
        entry.insert(table, made)
    except (duckdb.IntegrityError, duckdb.DataError) as error:
        raise BadInput(f"refused by {table}: {first_line(error)}") from error
    newest: dict[str, str | float] = {"sequence": sequence, "sha256": sha256}
    run(entry.connection, "UPDATE meta.chain SET sequence = $sequence, sha256 = $sha256", newest)


def canonical(content: Mapping[str, object]) -> str:
    """Return JSON with sorted keys, times in UTC, and without what is NULL.

    Columns that later migrations add are NULL in older rows, whose hashes therefore stay.
    """
    known = {name: value for name, value in content.items() if value is not None}
    return json.dumps(known, sort_keys=True, separators=(",", ":"), default=in_utc)


def verify(connection: duckdb.DuckDBPyConnection) -> str | None:
    """Say which row is the first that was changed, removed, put in or moved; None if none was."""
    expected, previous = 1, ""
    streams = (_links(connection, table) for table in KEYS)
    for number, table, row in heapq.merge(*streams, key=itemgetter(0)):
        if number > expected:
            return _removed(expected)
        where = name_row(number, table, row[KEYS[table]])
        if number < expected:
            return f"{where} was put in: its number is taken"
        if _digest(previous, table, row) != row["sha256"]:
            return f"{where} was changed, put in or moved: its hash is of something else"
        expected, previous = expected + 1, str(row["sha256"])
    sequence, sha256 = head(connection)
    if sequence >= expected:
        return _removed(expected)
    if (sequence, sha256) != (expected - 1, previous):
        return f"row {sequence + 1} of the ledger was put in: the chain ends before it"
    return None


def name_row(sequence: int, table: str, key: object) -> str:
    """Name a row of the ledger in words."""
    return f"row {sequence} of the ledger ({table} {key})"


def _removed(sequence: int) -> str:
    return f"row {sequence} of the ledger was removed, or its number was changed"


def head(connection: duckdb.DuckDBPyConnection) -> tuple[int, str]:
    """Return the number and the SHA-256 of the last row.

    Raises:
        StepcastError: nothing says which that is.
    """
    row = connection.execute("SELECT sequence, sha256 FROM meta.chain").fetchone()
    if row is None:
        raise StepcastError(
            "meta.chain is empty, so nothing says where the ledger ends; restore a backup"
        )
    return int(row[0]), str(row[1])


def _links(
    connection: duckdb.DuckDBPyConnection, table: str
) -> Iterator[tuple[int, str, Mapping[str, object]]]:
    """Yield the rows of a table with their numbers."""
    query = f"SELECT * FROM {table} ORDER BY sequence, sha256"
    for batch in connection.cursor().execute(query).to_arrow_reader(_BATCH):
        for row in batch.to_pylist():
            yield row["sequence"], table, row


def _digest(previous: str, table: str, content: Mapping[str, object]) -> str:
    kept = {name: content[name] for name in content.keys() - _MADE - _MUTABLE}
    text = f"{previous}\n{table}\n{canonical(kept)}"
    return hashlib.sha256(text.encode()).hexdigest()
