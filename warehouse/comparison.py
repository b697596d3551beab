"""The rows of a run in the database beside those of its landed Parquet files, read again."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

import duckdb
import pyarrow as pa

from warehouse.loader import OPERATION_TIME
from warehouse.tables import SCHEMAS, stream

Rows = tuple[int, int]
"""How many rows there are, and a sum of their hashes, whatever their order."""
_NONE: Rows = (0, 0)
_DERIVED = "operation_time"
# Sums of floating-point numbers depend on the order in which threads end.
_STATISTICS = ("mean_us", "median_us", "sd_us", "min_us", "p95_us")
_SAME = " AND ".join(
    f"abs(here.{name} - landed.{name}) <= 1e-9 * (1 + abs(landed.{name}))" for name in _STATISTICS
)
_UNLIKE = f"""
SELECT count(*) FROM (FROM raw.{_DERIVED} WHERE run_id = ?) AS here
FULL JOIN landed USING (operation)
WHERE here.steps IS DISTINCT FROM landed.steps OR NOT coalesce({_SAME}, false)
"""


def rows_here(connection: duckdb.DuckDBPyConnection) -> Mapping[str, Mapping[str, Rows]]:
    """Return what the database holds of each run, by table."""
    found: dict[str, dict[str, Rows]] = {}
    for table in SCHEMAS:
        query = f'SELECT run_id, {_rows(table)} FROM raw."{table}" GROUP BY run_id'
        for run_id, count, hashes in connection.execute(query).fetchall():
            found.setdefault(run_id, {})[table] = (int(count), int(hashes))
    return MappingProxyType(found)


def differences(
    connection: duckdb.DuckDBPyConnection, files: Sequence[Path], here: Mapping[str, Rows]
) -> Iterator[str]:
    """Yield a line for each table of a run whose rows are not those of its landed `files`.

    Raises:
        BadInput: a file cannot be read.
        duckdb.Error: neither.
    """
    landed = {file.stem: _rows_landed(connection, file) for file in files}
    timings = [file for file in files if file.stem == "timing"]
    derived = {_DERIVED} - set(landed) if timings else set()  # the loader makes it of timing
    for table in sorted({*landed, *here} - derived):
        there, expected = here.get(table, _NONE), landed.get(table, _NONE)
        if there[0] != expected[0]:
            yield f"{expected[0]} rows of {table} landed, {there[0]} are here"
        elif there != expected:
            yield f"rows of {table} were changed: they are not those that landed"
    if derived:
        yield from _statistics(connection, timings[0], here.get(_DERIVED, _NONE)[0])


def _statistics(connection: duckdb.DuckDBPyConnection, timing: Path, count: int) -> Iterator[str]:
    with _as_table(connection, "timing", timing):
        expected = connection.execute(OPERATION_TIME).to_arrow_table()
    connection.register("landed", expected)
    row = connection.execute(_UNLIKE, [timing.parent.name]).fetchone()
    connection.unregister("landed")
    assert row is not None
    if row[0] or count != expected.num_rows:
        yield f"rows of {_DERIVED} were changed: they are not the statistics of timing"


def _rows_landed(connection: duckdb.DuckDBPyConnection, file: Path) -> Rows:
    with _as_table(connection, "incoming", file):
        row = connection.execute(f"SELECT {_rows(file.stem)} FROM incoming").fetchone()
    assert row is not None
    return int(row[0]), int(row[1])


def _rows(table: str) -> str:
    columns = ", ".join(f'"{column}"' for column in SCHEMAS[table].names)
    return f"count(*), coalesce(sum(hash({columns})), 0)"


@contextmanager
def _as_table(connection: duckdb.DuckDBPyConnection, name: str, file: Path) -> Iterator[None]:
    batches = (batch for chunk in stream(file) for batch in chunk.to_batches())
    reader = pa.RecordBatchReader.from_batches(SCHEMAS[file.stem], batches)
    connection.register(name, reader)
    try:
        yield
    finally:
        connection.unregister(name)
