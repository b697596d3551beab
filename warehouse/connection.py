"""Connections to DuckDB files: opened late, closed always, patient with another process's lock."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from warehouse.records import BadInput, StepcastError, WarehouseBusy

PATIENCE_S = 10.0
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # Otherwise `SELECT * FROM path` would read the Python variable `path` of whoever calls.
    "python_enable_replacements": False,
}


@contextmanager
def connect(
    path: Path, *, read_only: bool = False, patience_s: float = PATIENCE_S
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file, waiting up to `patience_s` seconds for a lock another process holds.

    Raises:
        WarehouseBusy: the lock was still held; the message names the process.
        BadInput: the file cannot be opened as a DuckDB database.
    """
    retrying = Retrying(
        retry=retry_if_exception_type(WarehouseBusy),
        stop=stop_after_delay(patience_s),
        wait=wait_random(0.02, 0.3),
        reraise=True,
    )
    connection = retrying(_open, path, read_only)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit what the block did, or nothing of it if it raises."""
    connection.begin()
    try:
        yield
    except BaseException:
        connection.rollback()
        raise
    connection.commit()


def first_line(error: Exception) -> str:
    """Return the first line of DuckDB's message, without the snippet it draws below."""
    return str(error).partition("\n")[0]


def _open(path: Path, read_only: bool) -> duckdb.DuckDBPyConnection:
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=_CONFIG)
    except duckdb.Error as error:
        raise _explained(path, error) from error
    connection.execute("SET TimeZone = 'UTC'")
    return connection


def _explained(path: Path, error: duckdb.Error) -> StepcastError:
    if "Could not set lock" in str(error):
        holder = re.search(r"PID (\d+)", str(error))
        who = f"process {holder[1]}{_command(holder[1])}" if holder else "another process"
        return WarehouseBusy(f"{path} is held by {who}; wait for it or stop it, then try again")
    if "not a valid DuckDB database" in str(error):
        return BadInput(f"{path} is not a DuckDB database; move it away and try again")
    return BadInput(f"{path} cannot be opened: {first_line(error)}")


def _command(pid: str) -> str:
    try:
        return f" ({Path('/proc', pid, 'comm').read_text().strip()})"
    except OSError:
        return ""
