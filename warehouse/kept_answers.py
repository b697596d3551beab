"""Answers that a home keeps until runs are loaded: they change with nothing else."""

import gzip
import hashlib
import io
import os
import zlib
from contextlib import suppress
from pathlib import Path

import duckdb
import polars as pl

from warehouse.durable_files import remove, write_bytes

_FOLDER = "answers"
_MOST = 8
_STATE = (
    "SELECT count(*), max(loaded_at), max(sequence), "
    "(SELECT count(*) FROM pred.ledger "
    "WHERE sequence < (SELECT max(sequence) FROM meta.loaded)), "
    "(SELECT any_value(sha256) FROM meta.views) FROM meta.loaded"
)
"""What changes with loaded runs, the forecasts that they may judge, and views."""


def file_of(home: Path, name: str, text: str, connection: duckdb.DuckDBPyConnection) -> Path:
    """Return where the answer to a query is kept, of the runs that are loaded now.

    Args:
        home: that keeps it.
        name: of the query.
        text: what it asks.
        connection: to the home's warehouse, or what was published of it.
    """
    state = connection.execute(_STATE).fetchone()
    key = hashlib.sha256(f"{text}\n{state}".encode()).hexdigest()
    return home / _FOLDER / f"{name}-{key[:16]}.arrow.gz"


def read(file: Path) -> pl.DataFrame | None:
    """Return what was kept; None: nothing, or it is damaged."""
    # gzip has a checksum, Parquet has none.
    with suppress(OSError, EOFError, zlib.error, pl.exceptions.PolarsError):
        return pl.read_ipc(gzip.decompress(file.read_bytes()))
    return None


def keep(frame: pl.DataFrame, file: Path) -> None:
    """Keep an answer in place of earlier ones; where nothing can be written, it is not kept."""
    with suppress(OSError):
        file.parent.mkdir(exist_ok=True)
        content = io.BytesIO()
        frame.write_ipc(content)
        write_bytes(file, gzip.compress(content.getbuffer(), 1))
        for old in sorted(file.parent.glob("[!.]*"), key=os.path.getmtime)[:-_MOST]:
            remove(old)
