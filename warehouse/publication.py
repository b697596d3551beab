"""The file `warehouse.duckdb`: schema and views, and publishing `history.duckdb` crash-proof."""

import hashlib
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType

import duckdb

from warehouse.child_process import bound
from warehouse.connection import (
    SCHEMA,
    connect,
    first_line,
    is_of_machine,
    literal,
    plain_name,
    transaction,
    writer_of,
)
from warehouse.durable_files import scratch, sync
from warehouse.landing import run_folders
from warehouse.records import BadInput, StepcastError

_COPY_TIMEOUT_S = 600


def ensure_warehouse(main: Path) -> None:
    """Make an empty warehouse at `main` unless there is one.

    DuckDB refuses a file whose writer was killed before its first page was out, so a new one is
    made under a temporary name.
    """
    if main.exists():
        return
    main.parent.mkdir(parents=True, exist_ok=True)
    with scratch(main.parent) as fresh, suppress(FileExistsError):
        with connect(fresh) as connection:
            migrate(connection)
            connection.execute("CHECKPOINT")
        sync(fresh)
        # A link, unlike a rename, leaves alone what another process made meanwhile.
        os.link(fresh, main)
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
        if not verify or same_bytes(main, history):
            return False
    with scratch(main.parent) as fresh:
        copy(main, fresh, "history.duckdb was not published")
        os.utime(fresh, ns=(state.st_atime_ns, state.st_mtime_ns))
        sync(fresh)
        os.replace(fresh, history)
    sync(main.parent)
    return True


@contextmanager
def open_published(
    main: Path,
    history: Path,
    *,
    any_version: bool = False,
    settings: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open `history` for reading: nothing is written beside it, and `main` is left alone.

    Raises:
        BadInput: nothing is published yet, the file is damaged, or its schema is not the one that
            this code reads (an earlier one is let through with `any_version`).
    """
    if not history.exists():
        raise BadInput(_unpublished(main))
    with connect(history, read_only=True, settings=settings) as connection:
        if not any_version and (behind := lag(connection)) is not None:
            raise BadInput(explain_earlier_version(history, behind))
        yield connection


def explain_earlier_version(history: Path, behind: str) -> str:
    """Say that a history has an earlier schema (`migrations.lag`), and what to do."""
    return (
        f"{history} has {behind}; `stepcast load` brings it up to date, of a copy "
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
                bound(["cat", "--", str(source)]),
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


def same_bytes(main: Path, history: Path) -> bool:
    """Compare two files, in another process for the reason that `copy` has."""
    done = subprocess.run(
        bound(["sha256sum", "--", str(main), str(history)]),
        capture_output=True,
        text=True,
        timeout=_COPY_TIMEOUT_S,
        check=False,
    )
    sums = {line.lstrip("\\")[:64] for line in done.stdout.splitlines()}
    return done.returncode == 0 and len(sums) == 1


def _mark(state: os.stat_result) -> tuple[int, int]:
    return state.st_mtime_ns, state.st_size


# The schema: numbered SQL files make and change tables once; views are made anew from theirs.
#
# A migration that has run is never run again, so it is told by its digest. Views hold no data: the
# files of `views/` say what they are, in the order of their names, and when those files have
# changed all views and macros are dropped and made again.


VIEWS = Path(__file__).parent / "views"
_EDITIONS = "editions.csv"
"""Digests that migrations had when they still made views too: databases of then are as good."""


def migrate(
    connection: duckdb.DuckDBPyConnection,
    folder: Path = SCHEMA,
    *,
    views: Path = VIEWS,
    before_change: Callable[[], object] = lambda: None,
) -> tuple[int, int]:
    """Apply the migrations that the database lacks, each in a transaction of its own; then views.

    Returns the schema version before and after; 0 is an empty database. `before_change` is called
    before the first change of tables of a database that is not empty.

    Raises:
        BadInput: the database was made by newer code, or by other files of the same numbers.
        StepcastError: a migration failed, or views; what was before it stays applied.
    """
    applied, files = _applied(connection), _files(folder)
    before, after = _versions(applied, files)
    editions = _editions(folder)
    lacking = set(files) - set(applied)
    if applied and lacking:
        before_change()
    if lacking:
        connection.execute(f"SET VARIABLE schema_folder = {literal(plain_name(folder))}")
    for version, (file, *read_by_it) in files.items():
        digest = _digest(file, *read_by_it)
        if version in lacking:
            _apply(connection, version, file, digest)
        elif applied[version] not in (digest, editions.get(version)):
            raise BadInput(
                f"the warehouse was made by another edition of {file.name}; move "
                "warehouse.duckdb away and load the landing folder again"
            )
    if lacking or _edition_of(connection) != _edition(views):
        _make_views(connection, views)
    return before, after


def versions(connection: duckdb.DuckDBPyConnection, folder: Path = SCHEMA) -> tuple[int, int]:
    """Return the schema version of a database (0: empty), and the newest that this code knows.

    Raises:
        BadInput: the database was made by newer code.
    """
    return _versions(_applied(connection), _files(folder))


def lag(
    connection: duckdb.DuckDBPyConnection, folder: Path = SCHEMA, *, views: Path = VIEWS
) -> str | None:
    """Say what a database has that is older than what this code reads; None: nothing is.

    Raises:
        BadInput: the database was made by newer code.
    """
    version, newest = versions(connection, folder)
    if version < newest:
        return f"schema version {version}, and this Stepcast reads {newest}"
    if _edition_of(connection) != _edition(views):
        return "views of another edition than this Stepcast's"
    return None


def _make_views(connection: duckdb.DuckDBPyConnection, views: Path) -> None:
    """Drop every view and macro, make those of `views`, and note which edition they are."""
    kept = "NOT internal AND database_name = current_database()"
    try:
        with transaction(connection):
            for schema, name in connection.execute(
                f"SELECT schema_name, view_name FROM duckdb_views() WHERE {kept}"
            ).fetchall():
                connection.execute(f'DROP VIEW "{schema}"."{name}"')
            for schema, name, kind in connection.execute(
                "SELECT DISTINCT schema_name, function_name, function_type FROM duckdb_functions() "
                f"WHERE {kept} AND function_type IN ('macro', 'table_macro')"
            ).fetchall():
                what = "MACRO TABLE" if kind == "table_macro" else "MACRO"
                connection.execute(f'DROP {what} "{schema}"."{name}"')
            for file in sorted(views.glob("*.sql")):
                connection.execute(file.read_text())
            connection.execute("DELETE FROM meta.views")
            connection.execute("INSERT INTO meta.views VALUES (?)", [_edition(views)])
    except duckdb.Error as error:
        if is_of_machine(error):  # of which `connect` says what to do
            raise
        raise StepcastError(
            f"views of {views} could not be made: {first_line(error)}; they are as they were"
        ) from error


def _edition(views: Path) -> str:
    return _digest(*sorted(views.glob("*.sql")))


def _edition_of(connection: duckdb.DuckDBPyConnection) -> str | None:
    try:
        row = connection.execute("SELECT sha256 FROM meta.views").fetchone()
    except duckdb.CatalogException:
        return None
    return None if row is None else str(row[0])


def _editions(folder: Path) -> dict[int, str]:
    """Return the earlier digest of each migration that has one, by number."""
    file = folder / _EDITIONS
    lines = file.read_text().splitlines()[1:] if file.exists() else []
    return {int(version): digest for version, _, digest in (line.partition(",") for line in lines)}


def _versions(applied: Mapping[int, str], files: Mapping[int, object]) -> tuple[int, int]:
    version, newest = max(applied, default=0), max(files)
    if version > newest:
        raise BadInput(
            f"the warehouse has schema version {version} but this Stepcast knows versions up to "
            f"{newest}; update Stepcast or choose another STEPCAST_HOME"
        )
    return version, newest


def _files(folder: Path) -> dict[int, list[Path]]:
    """Return each migration by number, followed by the CSV files of its number, which it reads."""
    numbered = sorted(folder.glob("[0-9][0-9][0-9][0-9]_*"))
    migrations = {int(file.name[:4]): [file] for file in numbered if file.suffix == ".sql"}
    for file in numbered:
        if file.suffix == ".csv":
            migrations[int(file.name[:4])].append(file)
    return migrations


def _apply(connection: duckdb.DuckDBPyConnection, version: int, file: Path, digest: str) -> None:
    try:
        with transaction(connection):
            connection.execute(file.read_text())
            connection.execute(
                "INSERT INTO meta.migration VALUES (?, ?, ?, now())", [version, file.name, digest]
            )
    except (duckdb.ProgrammingError, duckdb.IntegrityError, duckdb.DataError) as error:
        raise StepcastError(
            f"migration {file.name} failed: {first_line(error)}; "
            "the warehouse is as it was before it"
        ) from error


def _digest(*files: Path) -> str:
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()


def _applied(connection: duckdb.DuckDBPyConnection) -> dict[int, str]:
    try:
        rows = connection.execute("SELECT version, sha256 FROM meta.migration").fetchall()
    except duckdb.CatalogException:
        return {}
    return dict(rows)
