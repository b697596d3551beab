"""Files that records are appended to, and of which only whole records are read.

A full disk, a kill or a power failure may leave a part of a record anywhere in such a file, with
the next one behind it in the same line. Records are JSON in brackets: a part of one is no JSON,
whatever follows it. So a reader that looks for whole ones finds them all.
"""

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Self, TypeVar

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


def whole(path: Path, begin: re.Pattern[str], checked: Callable[[object], T]) -> Iterator[T]:
    """Yield the records of a file that are whole, in order; none if there is no file.

    Args:
        path: the file.
        begin: how each record begins, and nothing inside one does.
        checked: returns the record that a JSON value is; raises ValueError where it is none.
    """
    text = path.read_bytes().decode(errors="replace") if path.exists() else ""
    found = begin.search(text)
    while found:
        try:
            value, end = _DECODER.raw_decode(text, found.start())
            record = checked(value)
        except (ValueError, RecursionError):
            end = found.start() + 1
        else:
            yield record
        found = begin.search(text, end)
