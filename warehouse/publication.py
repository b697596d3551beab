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
        copy(main, fresh, "history.duckdb was not published")
        os.utime(fresh, ns=(state.st_atime_ns, state.st_mtime_ns))
        sync(fresh)
        os.replace(fresh, history)
    finally:
        remove(fresh)
    sync(main.parent)
    return True


def is_current(main: Path, history: Path) -> bool:
    """Tell whether `history` is a copy of `main` as it is now, nothing of `main` being in a log."""
    log = main.with_name(main.name + ".wal")
    return (
        history.exists()
        and not (log.exists() and log.stat().st_size)
        and _mark(history.stat()) == _mark(main.stat())
    )


def copy(source: Path, target: Path, failure: str) -> None:
    """Copy a file on which this process has a connection open; `failure` begins the message.

    The connection stays open so that no other process writes meanwhile. Were the file opened
    and closed in this process, POSIX would drop DuckDB's lock on it; hence another process.

    Raises:
        StepcastError: the copy could not be written.
    """
    try:
        # Opened here: were this process killed, the other one would still make a file by its name.
        with target.open("xb") as file:
            subprocess.run(
                ["cat", "--", source],
                check=True,
                stdout=file,
                stderr=subprocess.PIPE,
                text=True,
                timeout=_COPY_TIMEOUT_S,
            )
    except (subprocess.SubprocessError, OSError) as error:
        code = getattr(error, "returncode", None)
        ended = str(error) if code is None else f"copying ended with {code}"
        detail = (getattr(error, "stderr", None) or ended).strip()
        size = source.stat().st_size / 1e6
        raise StepcastError(f"{failure}: {detail}; it needs {size:.1f} MB") from error


def _mark(state: os.stat_result) -> tuple[int, int]:
    return state.st_mtime_ns, state.st_size
