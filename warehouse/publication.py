"""Making `warehouse.duckdb` and publishing its read-only copy `history.duckdb`, crash-proof."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb

from warehouse.connection import connect, writer_of
from warehouse.durable import remove, sync, temporary
from warehouse.landing import run_folders
from warehouse.migrations import lag, migrate
from warehouse.records import BadInput, StepcastError

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


def publish(
    connection: duckdb.DuckDBPyConnection, main: Path, history: Path, *, verify: bool = False
) -> bool:
    """Replace `history` by a copy of `main`, on which `connection` is open; return whether it did.

    The copy keeps the time of change of `main`: equal times and sizes mean that nothing is new,
    also when the process that should have published was killed. With `verify` that is believed of
    equal bytes only: a disk may lose some of them without a change of either.

    Raises:
        StepcastError: the copy could not be written.
    """
    connection.execute("CHECKPOINT")
    state = main.stat()
    if history.exists() and _mark(history.stat()) == _mark(state):
        if not verify or _same_bytes(main, history):
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


@contextmanager
def published(
    main: Path, history: Path, *, any_version: bool = False
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open `history` for reading: nothing is written beside it, and `main` is left alone.

    Raises:
        BadInput: nothing is published yet, the file is damaged, or its schema is not the one that
            this code reads (an earlier one is let through with `any_version`).
    """
    if not history.exists():
        raise BadInput(_unpublished(main))
    with connect(history, read_only=True) as connection:
        if not any_version and (behind := lag(connection)) is not None:
            raise BadInput(earlier(history, behind))
        yield connection


def earlier(history: Path, behind: str) -> str:
    """Say that a history has an earlier schema (`migrations.lag`), and what to do."""
    return (
        f"{history} has {behind}; `stepcast warehouse migrate` brings it up to date, of a copy "
        "where the home cannot be written"
    )


def _unpublished(main: Path) -> str:
    home = main.parent
    if (writer := writer_of(main)) is not None:
        return (
            f"nothing has been published in {home} yet, and {writer} is loading: wait until that "
            "has ended, then try again"
        )
    if main.exists() or any(run_folders(home / "landing")):
        return f"nothing has been published in {home} yet; `stepcast load` does that"
    return f"no history in {home} yet; run `make demo` or `stepcast run`"


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


def _same_bytes(main: Path, history: Path) -> bool:
    """Compare two files, in another process for the reason that `copy` has."""
    done = subprocess.run(
        ["sha256sum", "--", main, history],
        capture_output=True,
        text=True,
        timeout=_COPY_TIMEOUT_S,
        check=False,
    )
    sums = {line.lstrip("\\")[:64] for line in done.stdout.splitlines()}
    return done.returncode == 0 and len(sums) == 1


def _mark(state: os.stat_result) -> tuple[int, int]:
    return state.st_mtime_ns, state.st_size
