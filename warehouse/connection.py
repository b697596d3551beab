"""Connections to DuckDB files: opened late, closed always, patient with another process's lock."""

import fcntl
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from pathlib import Path
from threading import Lock
from types import MappingProxyType

import duckdb
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from warehouse import durable_files
from warehouse.home import HISTORY, JOURNAL, MAIN, home
from warehouse.records import BadInput, DamagedFile, StepcastError, WarehouseBusy

PATIENCE_S = 10.0
_FLOCK = "hhqqi4x"
"""Linux's `struct flock`: kind, whence, start, length, process."""
_DATA = re.compile("constraint", re.IGNORECASE)
"""Said where a commit fails for what is written, not for where it is written to."""
_DAMAGE = re.compile(
    r"Corrupt (database|WAL) file|does not match stored checksum|not a valid DuckDB database|"
    r'Could not read \w+ bytes from file "[^"]*\.duckdb(\.wal)?"|Failed to (load|read) metadata'
)
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    # Otherwise `SELECT * FROM path` would read the Python variable `path` of whoever calls.
    "python_enable_replacements": False,
}


SCHEMA = Path(__file__).parent / "schema"
_NO_SETTINGS: Mapping[str, str] = MappingProxyType({})


@contextmanager
def connect(
    path: Path,
    *,
    read_only: bool = False,
    folders: Sequence[Path | str] = (),
    settings: Mapping[str, str] = _NO_SETTINGS,
) -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB file, waiting up to `PATIENCE_S` for a lock another process holds.

    Before anything of the file is read, statements and views of it are kept from other files,
    extensions and settings. Within reach stay the database itself, its log, what it spills, and
    what migrations read.

    Args:
        path: of the file.
        read_only: nothing is written to it.
        folders: whose files are within reach too.
        settings: of DuckDB, by name.

    Raises:
        WarehouseBusy: the lock was still held; the message names the process.
        Damaged: the file, or what the block read of it, is not what was written.
        BadInput: the file cannot be opened.
        StepcastError: the block could not write what it had to, for example to a full disk.
    """
    connection = _patient()(_open, path, read_only, folders, settings)
    try:
        yield connection
    except Exception as error:
        if is_damage(error):
            raise _damaged(path, error) from error
        if not isinstance(error, duckdb.Error) or not is_of_machine(error):
            raise
        raise StepcastError(
            f"{path} could not be written: {first_line(error)}; free disk space and try again: "
            "what was there before is whole, and what has landed stays in landing/"
        ) from error
    finally:
        connection.close()


@cache
def plain_name(folder: Path) -> str:
    """Return another name of a folder: DuckDB takes * for a pattern and a=b for a column."""
    return f"/proc/self/fd/{os.open(folder, os.O_RDONLY | os.O_DIRECTORY)}"


def literal(value: str | float | Sequence[str] | None) -> str:
    """Return a text, a number, a list of texts or nothing as SQL has it."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if value is None:
        return "NULL"
    if isinstance(value, Sequence):
        return f"[{', '.join(map(literal, value))}]::VARCHAR[]"
    return f"'{value!r}'::DOUBLE" if isinstance(value, float) else str(value)


def run(
    connection: duckdb.DuckDBPyConnection,
    sql: str,
    values: Mapping[str, str | float | Sequence[str] | None],
) -> duckdb.DuckDBPyConnection:
    """Run a statement with values of its named parameters.

    The first value that is bound by `execute` makes DuckDB import pandas, in 0.2 s.
    """
    if not values:
        return connection.execute(sql)
    connection.execute(f"PREPARE stated AS {sql}")
    named = ", ".join(f'"{name}" := {literal(value)}' for name, value in values.items())
    return connection.execute(f"EXECUTE stated({named})")


@contextmanager
def presence(home: Path, *, alone: bool = False) -> Iterator[None]:
    """Hold the folder of a warehouse, together with others or `alone`.

    Whoever opens the warehouse does so present; whoever replaces its file is alone. Else a process
    that opened the old file just before would get its lock afterwards, and write to nowhere.

    Raises:
        WarehouseBusy: others were still there.
    """
    descriptor = os.open(home, os.O_RDONLY)
    try:
        _patient()(_lock, descriptor, home, alone)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def transaction(connection: duckdb.DuckDBPyConnection) -> Iterator[None]:
    """Commit what the block did, or nothing of it if it raises."""
    connection.begin()
    try:
        yield
    except BaseException:
        # After some errors DuckDB has rolled back itself, or given the database up.
        with suppress(duckdb.Error):
            connection.rollback()
        raise
    connection.commit()


def writer_of(path: Path) -> str | None:
    """Return which process holds a DuckDB file to write to it; None if none does.

    Takes no lock. Not for a process that has the file open: closing it here would drop its lock.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        request = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_, pid = struct.unpack(_FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, request))
    except OSError:
        return None
    finally:
        os.close(descriptor)
    if kind == fcntl.F_UNLCK:
        return None
    # A process of another container has no number here.
    return f"process {pid}{_command(str(pid))}" if pid > 0 else "another process"


def is_damage(error: Exception) -> bool:
    """Tell whether DuckDB says that a database file is not what was written."""
    if isinstance(error, StepcastError):
        return False
    return isinstance(error, duckdb.SerializationException) or bool(_DAMAGE.search(str(error)))


def is_of_machine(error: BaseException) -> bool:
    """Tell whether this machine is to blame for an error: its disk, its memory, a lock.

    Such an error says nothing of what was read or asked.
    """
    if isinstance(error, duckdb.FatalException | duckdb.OperationalError):
        return not _DATA.search(str(error))
    if isinstance(error, duckdb.Error):
        return "No space left" in str(error) or "Could not write" in str(error)
    return durable_files.is_of_machine(error)


def first_line(error: Exception) -> str:
    """Return the first line of DuckDB's message, without the snippet it draws below."""
    return str(error).partition("\n")[0]


def with_place(error: Exception) -> str:
    """Return DuckDB's message on one line: what is wrong, what it suggests, and where that is."""
    message, _, drawing = str(error).partition("\nLINE ")
    explanation = " ".join(message.split())
    line, _, pointer = drawing.partition("\n")
    number, _, text = line.partition(": ")
    at = len(pointer.partition("^")[0]) - len(f"LINE {number}: ")
    if "^" not in pointer or not 0 <= at <= len(text):
        return explanation
    where = f"at {text[at:].strip()!r:.50}" if text[at:].strip() else "at its end"
    return f"{explanation} (line {number}, {where})"


def _patient() -> Retrying:
    return Retrying(
        retry=retry_if_exception_type(WarehouseBusy),
        stop=stop_after_delay(PATIENCE_S),
        wait=wait_random(0.02, 0.3),
        reraise=True,
    )


def _lock(descriptor: int, home: Path, alone: bool) -> None:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        why = "in use by another process" if alone else "being compacted"
        raise WarehouseBusy(f"the warehouse in {home} is {why}; wait, then try again") from error


@cache
def _spilled(place: Path) -> str:
    """Return where readers of this process spill: DuckDB opens a file twice with equal settings."""
    return str(durable_files.temporary(place)) if os.access(place, os.W_OK) else ""


_SETTINGS = Lock()
"""Of threads that open a file at once, one sets what all of them share."""


def _open(
    path: Path, read_only: bool, folders: Sequence[Path | str], settings: Mapping[str, str]
) -> duckdb.DuckDBPyConnection:
    config = _CONFIG
    if read_only:  # else killed readers would leave what they spilled under a name without owner
        with _SETTINGS:
            config = config | {"temp_directory": _spilled(home())}
    try:
        connection = duckdb.connect(str(path), read_only=read_only, config=config)
    except duckdb.Error as error:
        raise _explained(path, error) from error
    # DuckDB compares paths as they stand in a statement, where * and [ are escaped.
    within_reach = [str(folder) for folder in folders] + ([] if read_only else [plain_name(SCHEMA)])
    inside = [literal(name) for folder in within_reach for name in (folder, escape(folder))]
    with _SETTINGS:
        # Another connection of this process to the file may have locked what this would set.
        locked = "SELECT current_setting('lock_configuration')"
        if connection.execute(locked).fetchone() == (True,):
            return connection
        for name, value in settings.items():
            connection.execute(f"SET {name} = {literal(value)}")
        # Of all connections to this file: a second one cannot set what the first has locked.
        connection.execute("SET GLOBAL TimeZone = 'UTC'")
        # A join with some runs leaves blocks of other runs unread, also where it is of many.
        connection.execute("SET GLOBAL dynamic_or_filter_threshold = 10000")
        if inside:
            connection.execute(f"SET allowed_directories = [{', '.join(inside)}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
    return connection


def _explained(path: Path, error: duckdb.Error) -> StepcastError:
    if "Could not set lock" in str(error):
        holder = re.search(r"PID (\d+)", str(error))
        who = f"process {holder[1]}{_command(holder[1])}" if holder else "another process"
        return WarehouseBusy(f"{path} is held by {who}; wait for it or stop it, then try again")
    if is_damage(error):
        return _damaged(path, error)
    if "with version number" in str(error):
        return BadInput(
            f"{path} was written by a newer DuckDB than {duckdb.__version__}; "
            "docs/warehouse-upkeep.md says how that one writes it back"
        )
    return BadInput(f"{path} cannot be opened: {first_line(error)}")


def _damaged(path: Path, error: Exception) -> DamagedFile:
    what = f"{path} is damaged ({first_line(error)})"
    if path.name == HISTORY:
        return DamagedFile(f"{what}; `stepcast load` publishes it again")
    if path.name != MAIN:
        return DamagedFile(f"{what}; check the disk, and take another copy")
    if (path.parent / JOURNAL).exists():
        return DamagedFile(
            f"{what}; nothing is lost: `stepcast load` sets it aside and builds it again of "
            f"landing/ and {JOURNAL}/"
        )
    return DamagedFile(
        f"{what}, and {path.parent} has no {JOURNAL}/: `stepcast load` sets it aside and brings "
        f"back what {HISTORY} and landing/ have"
    )


def _command(pid: str) -> str:
    try:
        return f" ({Path('/proc', pid, 'comm').read_text().strip()})"
    except OSError:
        return ""
