"""Checkpoints: files named by their iteration that are there whole or not at all."""

import os
import re
from pathlib import Path

from warehouse.durable import remove, sync, temporary

_NAME = re.compile(r"checkpoint-(?P<step>\d{10})\.pt")


def write(folder: Path, step: int, content: bytes, keep: int) -> Path:
    """Write the checkpoint of an iteration, and remove all but the `keep` newest.

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
    for old in sorted(_found(folder))[:-keep]:
        remove(_found(folder)[old])
    return path


def newest(folder: Path) -> tuple[int, Path | None]:
    """Return the newest checkpoint and its iteration; 0 and None if there is none."""
    found = _found(folder)
    step = max(found, default=0)
    return step, found.get(step)


def of_step(folder: Path, step: int) -> Path | None:
    """Return the checkpoint of an iteration, None if there is none."""
    return _found(folder).get(step)


def _found(folder: Path) -> dict[int, Path]:
    named = [(_NAME.fullmatch(path.name), path) for path in folder.iterdir()]
    return {int(match["step"]): path for match, path in named if match}
