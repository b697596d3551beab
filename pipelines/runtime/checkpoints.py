"""Checkpoints: files named by their iteration that are there whole or not at all."""

import os
import re
from pathlib import Path

from warehouse.durable import remove, sync, temporary

_NAME = re.compile(r"checkpoint-\d{10}\.pt")


def write(folder: Path, step: int, content: bytes, keep: int) -> Path:
    """Write the checkpoint of an iteration, and remove all but the last `keep`.

    Raises:
        OSError: it could not be written, for example to a full disk; older ones are still there.
    """
    path = folder / f"checkpoint-{step:010}.pt"
    fresh = temporary(folder)
    try:
        fresh.write_bytes(content)
        sync(fresh)
        os.replace(fresh, path)
    finally:
        remove(fresh)
    sync(folder)
    for old in _found(folder)[:-keep]:
        remove(old)
    return path


def newest(folder: Path) -> tuple[int, Path | None]:
    """Return the iteration of the checkpoint that was written last, and its file; 0 and None."""
    for path in _found(folder)[-1:]:
        return _step(path), path
    return 0, None


def of_step(folder: Path, step: int) -> Path | None:
    """Return the checkpoint of an iteration, None if there is none."""
    return next((path for path in _found(folder) if _step(path) == step), None)


def _found(folder: Path) -> list[Path]:
    """Return all checkpoints in the order in which they were written.

    That need not be the order of iterations: rank 0 may have been ahead of the one that followed.
    """
    found = [path for path in folder.iterdir() if _NAME.fullmatch(path.name)]
    return sorted(found, key=lambda path: (path.stat().st_mtime_ns, path.name))


def _step(path: Path) -> int:
    return int(path.stem.removeprefix("checkpoint-"))
