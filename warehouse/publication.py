"""Making `warehouse.duckdb` and publishing its read-only copy `history.duckdb`, crash-proof."""

import os
import subprocess
from pathlib import Path

import duckdb

from warehouse.connection import connect
from warehouse.durable import remove, sync, temporary
from warehouse.migrations import migrate
from warehouse.records import StepcastError

_COPY_TIMEOUT_S = 600


def ensure(main: Path) -> None:
    """Make an empty warehouse at `main` unless there is one.

    DuckDB refuses a file whose writer was killed before its first page was out, so a new one is
    made under a temporary name.
    """
    if main.exists():
        return
    main.parent.mkdir(parents=True, exist_ok=True)
    fresh = temporary(main.parent)
    try:
        with connect(fresh) as connection:
            migrate(connection)
            connection.execute("CHECKPOINT")
        sync(fresh)
        # A link, unlike a rename, leaves alone what another process made meanwhile.
        os.link(fresh, main)
    except FileExistsError:
        pass
    finally:
        remove(fresh)
    sync(main.parent)


def publish(connection: duckdb.DuckDBPyConnection, main: Path, history: Path) -> bool:
    """Replace `history` by a copy of `main`, on which `connection` is open; return whether it did.

    The copy keeps the time of change of `main`: equal times and sizes mean that nothing is new,
    also when the process that should have published was killed.

    Raises:
        StepcastError: the copy could not be written.
    """
    connection.execute("CHECKPOINT")
    state = main.stat()
    if history.exists() and _mark(history.stat()) == _mark(state):
        return False
    fresh = temporary(main.parent)
    try:
        _copy(main, fresh)
        os.utime(fresh, ns=(state.st_atime_ns, state.st_mtime_ns))
        sync(fresh)
        os.replace(fresh, history)
    finally:
        remove(fresh)
    sync(main.parent)
    return True


def _mark(state: os.stat_result) -> tuple[int, int]:
    return state.st_mtime_ns, state.st_size


def _copy(source: Path, target: Path) -> None:
    # The connection stays open so that no other process writes meanwhile. Were the file opened
    # and closed in this process, POSIX would drop DuckDB's lock on it; hence another process.
    try:
        subprocess.run(
            ["cp", "--", source, target],
            check=True,
            capture_output=True,
            text=True,
            timeout=_COPY_TIMEOUT_S,
        )
    except (subprocess.SubprocessError, OSError) as error:
        detail = getattr(error, "stderr", None) or error
        raise StepcastError(f"history.duckdb was not published: {str(detail).strip()}") from error
