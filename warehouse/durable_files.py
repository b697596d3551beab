"""Files that outlast a kill: whole or not at all, and appended to, record by record."""

import json
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

# Files that are there whole or not at all, whatever kills the process that writes them.


_TEMPORARY = re.compile(r"\.tmp-(?P<pid>\d+)-")


def temporary(folder: Path) -> Path:
    """Return a new path in `folder` whose name says that this process owns it."""
    return folder / f".tmp-{os.getpid()}-{uuid.uuid4().hex}"


@contextmanager
def scratch(folder: Path) -> Iterator[Path]:
    """Yield a new path in `folder`; what is there afterwards, and DuckDB's log of it, goes."""
    path = temporary(folder)
    try:
        yield path
    finally:
        remove(path)
        remove(path.with_name(path.name + ".wal"))


def sweep(folder: Path) -> None:
    """Remove the temporary files and folders in `folder` whose owner is dead."""
    if not folder.is_dir():
        return
    for name in os.listdir(folder):
        match = _TEMPORARY.match(name)
        if match and not _alive(int(match["pid"])):
            remove(folder / name)


def remove(path: Path) -> None:
    """Remove a file or a folder; none there is fine."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    fresh = temporary(path.parent)
    try:
        fresh.write_bytes(content)
        os.replace(fresh, path)
    except OSError as error:  # a full disk names no file
        raise type(error)(error.errno, error.strerror, str(path)) from error
    finally:
        remove(fresh)


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


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


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
            _sync_folder(path.parent)
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


def _sync_folder(folder: Path) -> None:
    """Force the names of new files to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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
