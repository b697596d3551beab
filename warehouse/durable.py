"""Files that are there whole or not at all, whatever kills the process that writes them."""

import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    for path in folder.iterdir():
        match = _TEMPORARY.match(path.name)
        if match and not _alive(int(match["pid"])):
            remove(path)


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


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
