"""Files that outlast a kill: whole or not at all, and appended to, record by record."""

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Self, TypeVar

# Files that are there whole or not at all, whatever kills the process that writes them.


_TEMPORARY = re.compile(r"\.tmp-(?P<pid>\d+)-((?P<machine>[0-9a-f]{8})-(?P<began>\d+)-)?")
_ABANDONED_S = 86_400
"""After so long without a change, a file is nobody's whose owner cannot be looked up here."""


def temporary(folder: Path) -> Path:
    """Return a new path in `folder` whose name says that this process owns it.

    Another process may get the same id later, or have it in another container: the name also has
    when the process began, and on which machine.
    """
    pid = os.getpid()
    return folder / f".tmp-{pid}-{_machine()}-{_began(pid)}-{uuid.uuid4().hex}"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield a new path in `folder`; what is there afterwards, and DuckDB's log of it, goes."""
    path = temporary(folder)
    try:
        yield path
    finally:
        remove(path)
        remove(path.with_name(path.name + ".wal"))


def sweep(folder: Path) -> list[Path]:
    """Remove the temporary files and folders in `folder` whose owner is dead; return them."""
    if not folder.is_dir():
        return []
    matches = [match for name in os.listdir(folder) if (match := _TEMPORARY.match(name))]
    left = [path for match in matches if _is_left(path := folder / match.string, match)]
    for path in left:
        remove(path)
    return left


def sweep_home(home: Path) -> list[Path]:
    """Remove the temporary files and folders of a home whose owner is dead; return them."""
    folders = [home, *home.glob("*/"), *home.glob("graphs/*/")]
    with suppress(OSError):
        return [path for folder in folders for path in sweep(folder)]
    return []  # of a home that only others may write


def remove(path: Path) -> None:
    """Remove a file or a folder; none there is fine."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file, whole or not at all; if `durable`, its content and name are on disk then."""
    try:
        with scratch(path.parent) as fresh:
            fresh.write_bytes(content)
            if durable:
                sync(fresh)
            os.replace(fresh, path)
            if durable:
                sync(path.parent)
    except OSError as error:  # a full disk names no file
        raise type(error)(error.errno, error.strerror, str(path)) from error


def put_in_place(fresh: Path, target: Path, *, durable: bool = True) -> bool:
    """Rename a whole folder to the name under which it is found; return whether none was there.

    The name is on disk then if `durable`.
    """
    try:
        os.rename(fresh, target)
    except OSError:
        if target.exists():
            return False
        raise
    if durable:
        sync(target.parent)
    return True


def sync(path: Path) -> None:
    """Force the content of a file, or the names in a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def is_of_machine(error: BaseException) -> bool:
    """Tell whether this machine is to blame for an error: its disk, its memory, permissions.

    What pyarrow makes of wrong bytes is an OSError without a number.
    """
    return isinstance(error, MemoryError) or getattr(error, "errno", None) is not None


def _is_left(path: Path, name: re.Match[str]) -> bool:
    """Tell whether the owner of a temporary file is dead."""
    if name["machine"] not in (None, _machine()):
        try:
            return time.time() - path.lstat().st_mtime > _ABANDONED_S
        except FileNotFoundError:
            return False
    pid = int(name["pid"])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    began = _began(pid)
    return None not in (name["began"], began) and name["began"] != began


def _began(pid: int) -> str | None:
    """Return when a process began, ticks since the machine did (proc_pid_stat(5), field 22).

    None: it has just ended, or is hidden as another user's.
    """
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    return None


@cache
def _machine() -> str:
    """Return what tells process ids apart: those of this start of the machine and container."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    container = os.stat("/proc/self/ns/pid").st_ino
    return hashlib.sha256(f"{boot}{container}".encode()).hexdigest()[:8]


# Files that records are appended to, and of which only whole records are read.
#
# A full disk, a kill or a power failure may leave a part of a record anywhere in such a file, with
# the next one behind it in the same line. Records are JSON in brackets: a part of one is no JSON,
# whatever follows it. So a reader that looks for whole ones finds them all.


T = TypeVar("T")

_DECODER = json.JSONDecoder()


class Appender:
    """Appends lines to a file, all of those given together or none; a context manager."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab+", buffering=0)
        self.size = self._file.seek(0, os.SEEK_END)
        if not self.size:
            sync(path.parent)
        if self.size and os.pread(self._file.fileno(), 1, self.size - 1) != b"\n":
            self.append([""])

    def append(self, lines: list[str]) -> None:
        """Append lines, each with its end.

        Raises:
            OSError: it could not be done, for example on a full disk; the file is as before.
        """
        left = memoryview("".join(f"{line}\n" for line in lines).encode())
        size = self.size + len(left)
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError:
            self.cut(self.size)
            raise
        self.size = size

    def sync(self) -> None:
        """Force what was appended to disk."""
        os.fsync(self._file.fileno())

    def cut(self, size: int) -> None:
        """Make the file as long as it was before."""
        self._file.truncate(size)
        self.size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_whole_records(
    path: Path, begin: re.Pattern[str], checked: Callable[[object], T]
) -> Iterator[T]:
    """Yield the records of a file that are whole, in order; none if there is no file.

    Args:
        path: the file.
        begin: how each record begins, and nothing inside one does.
        checked: returns the record that a JSON value is; raises ValueError where it is none.
    """
    text = path.read_bytes().decode(errors="replace") if path.exists() else ""
    match = begin.search(text)
    while match:
        try:
            value, end = _DECODER.raw_decode(text, match.start())
            record = checked(value)
        except (ValueError, RecursionError):
            end = match.start() + 1
        else:
            yield record
        match = begin.search(text, end)
