"""The raw tables as Arrow schemas: what a landed Parquet file holds, and how one is checked."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import pyarrow as pa
import pyarrow.parquet as pq

from warehouse.records import BadInput

JSON_COLUMNS = ("host", "software", "config")
CHUNK_ROWS = 122_880
"""Rows that are in memory at once, and of a Parquet row group: one row group of DuckDB."""


def _need(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


def _schema(*fields: pa.Field) -> pa.Schema:
    return pa.schema([_need("run_id", pa.string()), *fields])


_TEXT, _TIME, _REAL = pa.string(), pa.timestamp("us", tz="UTC"), pa.float64()
_SMALL, _INT, _BIG = pa.int16(), pa.int32(), pa.int64()

SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "run": _schema(
            *(_need(name, _TEXT) for name in ("probe", "purpose", "study")),
            _need("repeat", _INT),
            pa.field("scenario_id", _TEXT),
            *(_need(name, _TEXT) for name in ("backend", "status")),
            pa.field("error", _TEXT),
            *(_need(name, _TIME) for name in ("started_at", "ended_at")),
            *(_need(name, _TEXT) for name in ("host_id", *JSON_COLUMNS)),
            pa.field("cost_usd", _REAL),
        ),
        "scenario": _schema(_need("scenario_id", _TEXT), _need("canonical", _TEXT)),
        "sample": _schema(
            _need("metric", _TEXT),
            _need("unit", _TEXT),
            pa.field("window", _SMALL),
            pa.field("value", _REAL),
        ),
        "step": _schema(
            _need("worker", _SMALL),
            _need("step", _INT),
            pa.field("window", _SMALL),
            _need("traced", pa.bool_()),
            _need("start_us", _BIG),
            _need("end_us", _BIG),
        ),
        "operation": _schema(
            _need("operation", _INT),
            *(_need(name, _TEXT) for name in ("name", "type", "resource")),
            pa.field("server", _SMALL),
            pa.field("size_bytes", _BIG),
        ),
        "edge": _schema(_need("source", _INT), _need("target", _INT)),
        "timing": _schema(
            *(_need(name, _INT) for name in ("step", "operation", "start_us", "duration_us")),
        ),
        "link": _schema(
            _need("direction", _TEXT),
            *(_need(name, _SMALL) for name in ("flows", "flow", "trial")),
            _need("seconds", _REAL),
            _need("bytes", _BIG),
            _need("bandwidth_Bps", _REAL),
            pa.field("retransmits", _INT),
        ),
    }
)


def conform(name: str, table: pa.Table, where: str) -> pa.Table:
    """Return the columns of raw table `name`, in its order and types; `where` begins messages.

    Raises:
        BadInput: a column is missing, or a value does not fit its type.
    """
    schema = SCHEMAS[name]
    missing = [column for column in schema.names if column not in table.column_names]
    if missing:
        found = ", ".join(table.column_names)
        raise BadInput(f"{where}: missing columns {', '.join(missing)}; found {found}")
    try:
        return table.select(schema.names).cast(schema)
    except (pa.ArrowException, ValueError) as error:
        raise BadInput(f"{where}: {one_line(error)}") from error


def read(file: Path) -> pa.Table:
    """Return all rows of `<table>.parquet`, checked as `stream` does."""
    return pa.concat_tables(stream(file))


def stream(file: Path) -> Iterator[pa.Table]:
    """Yield the rows of `<table>.parquet`, `CHUNK_ROWS` at a time, in that table's schema.

    The first chunk has no rows: whether the columns fit is known before any row is read.

    Raises:
        BadInput: the file is missing, unreadable, of no known table, or lacks columns.
    """
    name = file.stem
    if name not in SCHEMAS:
        raise BadInput(f"{file.name} is no known table; the tables are {', '.join(SCHEMAS)}")
    try:
        with pq.ParquetFile(file, pre_buffer=False) as parquet:
            yield conform(name, parquet.schema_arrow.empty_table(), file.name)
            for batch in parquet.iter_batches(CHUNK_ROWS):
                yield conform(name, pa.Table.from_batches([batch]), file.name)
    except FileNotFoundError as error:
        raise BadInput(f"{file.name} is missing") from error
    except (pa.ArrowException, OSError) as error:
        # An errno is the machine's trouble (no permission, a failing disk), not the file's.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadInput(f"{file.name} is not readable Parquet: {one_line(error)}") from error


def one_line(error: Exception) -> str:
    """Return an error's message without line breaks."""
    return " ".join(str(error).split())
