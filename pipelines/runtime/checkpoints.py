"""Checkpoints: files named by their iteration that are there whole or not at all."""

import os
import re
from pathlib import Path

from warehouse.durable_files import remove, sync, temporary

_NAME = re.compile(r"checkpoint-\d{10}\.pt")


def write(folder: Path, step: int, content: bytes, keep: int) -> Path:
    """Write the checkpoint of an iteration, and remove all but the last `keep`.

    Those of later iterations go too: their rank was ahead of the one that writes now, and is gone.
    So the checkpoint of the last iteration is the one written last, whatever the clock says.

    Raises:
        OSError: it could not be written, for example to a full disk; older ones are still there.
    """
    written = path(folder, step)
    fresh = temporary(folder)
    try:
        fresh.write_bytes(content)
        sync(fresh)
        os.replace(fresh, written)
    finally:
        remove(fresh)
    sync(folder)
    found = _found(folder)
    ahead = [one for one in found if one > written]
    for other in (*ahead, *[one for one in found if one <= written][:-keep]):
        remove(other)
    return written


def path(folder: Path, step: int) -> Path:
    """Return where the checkpoint of an iteration is written."""
    return folder / f"checkpoint-{step:010}.pt"


def newest(folder: Path) -> tuple[int, Path | None]:
    """Return the iteration of the checkpoint that was written last, and its file; 0 and None."""
    for found in _found(folder)[-1:]:
        return _step(found), found
    return 0, None


def of_step(folder: Path, step: int) -> Path | None:
    """Return the checkpoint of an iteration, None if there is none."""
    return next((found for found in _found(folder) if _step(found) == step), None)


def _found(folder: Path) -> list[Path]:
    """Return all checkpoints in the order of their iterations."""
    return sorted(one for one in folder.iterdir() if _NAME.fullmatch(one.name))


def _step(checkpoint: Path) -> int:
    return int(checkpoint.stem.removeprefix("checkpoint-"))
