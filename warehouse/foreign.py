"""Folders that others made: what may be in them, and under which names."""

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from warehouse.records import BadInput

_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")


def check_name(name: str, what: str) -> None:
    """Refuse what cannot be the name of a folder or file of ours; `what` begins the message.

    Raises:
        BadInput: it has other characters than letters, digits, . _ and -, more than 200 of them,
            or a dot first.
    """
    if not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} {name[:200]!r} cannot name a folder; use up to 200 letters, digits, . _ and -"
        )


@contextmanager
def intact(file: Path) -> Iterator[None]:
    """Tell what a reader makes of a damaged file of a set as the user's matter.

    Raises:
        BadInput: the file is damaged.
    """
    try:
        yield
    except (pa.ArrowException, OSError, KeyError, ValueError, RecursionError) as error:
        # What the disk says has a number; what pyarrow makes of wrong bytes has none.
        if isinstance(error, OSError) and error.errno is not None:
            raise
        said = " ".join(str(error).split())
        raise BadInput(f"set {file.parent}: {file.name} is damaged: {said}") from error


def check_plain(folder: Path) -> None:
    """Refuse a folder of a run that is not made of plain files, beside folders within it.

    Raises:
        BadInput: it is gone, is a symbolic link, or holds one or a thing that is no file.
    """
    try:
        check_folder(folder.name, folder.lstat().st_mode)
        with os.scandir(folder) as entries:
            for entry in entries:
                mode = entry.stat(follow_symlinks=False).st_mode
                if not stat.S_ISDIR(mode) or entry.name.endswith(".parquet"):
                    check_file(entry.name, mode)
    except FileNotFoundError as error:
        raise BadInput(f"{folder.name} is gone from {folder.parent}") from error


def check_file(name: str, mode: int) -> None:
    """Refuse what is no plain file, by the mode that `lstat` tells.

    Raises:
        BadInput: it is a link, a folder, a pipe or a device.
    """
    if stat.S_ISLNK(mode):
        raise BadInput(f"{name} is a symbolic link; put the file itself in its place")
    if not stat.S_ISREG(mode):
        raise BadInput(f"{name} is no file; remove it")


def check_folder(name: str, mode: int) -> None:
    """Refuse what is no folder, by the mode that `lstat` tells.

    Raises:
        BadInput: it is a link or a file.
    """
    if stat.S_ISLNK(mode):
        raise BadInput(f"{name} is a symbolic link; put the folder itself in its place")
    if not stat.S_ISDIR(mode):
        raise BadInput(f"{name} is no folder")
