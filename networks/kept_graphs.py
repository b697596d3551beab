"""Graphs that were extracted once, kept in a folder; loads no framework.

A kept graph is of the code of this package and the releases of the frameworks that made it: what
another code or release made is not read, and goes when the first graph of the present one is kept.
"""

import gzip
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

_LIBRARIES = ("torch", "pytorchcv", "tensorflow", "tf_keras")
_MOST_BYTES = 256 << 20
"""Of a graph, unpacked."""
_MOST_GRAPHS = 4096
"""In a folder: who asks a service may choose sides of images by the thousand."""


class _Place:
    """The folder that graphs are kept in; None: in none."""

    folder: Path | None = None


def keep_in(folder: Path | None) -> None:
    """Keep graphs that this process extracts in a folder from now on, and read those there.

    None: nowhere, as where no folder was ever given.
    """
    _Place.folder = folder


def keep_beside(home: Path) -> None:
    """Keep them in the home of a history from now on."""
    keep_in(home / "graphs")


def kept(name: str) -> Any:
    """Return the fields of a graph as they were kept, None if they were not or are damaged."""
    if _Place.folder is None:
        return None
    try:
        with gzip.open(_file(_Place.folder, name)) as file:
            text = file.read(_MOST_BYTES + 1)
        return json.loads(text) if len(text) <= _MOST_BYTES else None
    except (OSError, EOFError, ValueError):
        return None


def keep(name: str, text: str) -> None:
    """Keep a graph, given as JSON; where nothing can be written, it is not kept."""
    if _Place.folder is None:
        return
    file = _file(_Place.folder, name)
    with suppress(OSError):
        if not file.parent.exists():
            for other in _Place.folder.glob("*"):
                shutil.rmtree(other, ignore_errors=True)
            file.parent.mkdir(parents=True, exist_ok=True)
        if len(os.listdir(file.parent)) >= _MOST_GRAPHS:
            return
        with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
            part.write(gzip.compress(text.encode(), 1))
        os.replace(part.name, file)


@cache
def digest() -> str:
    """Return what names the files of this package and the releases of the frameworks."""
    found = sha256()
    for path in sorted(Path(__file__).parent.glob("*.*")):
        found.update(f"{path.name}\n".encode() + path.read_bytes())
    for line in _releases():
        found.update(line.encode())
    return found.hexdigest()[:16]


def _releases() -> Iterator[str]:
    for name in _LIBRARIES:
        with suppress(metadata.PackageNotFoundError):
            yield f"{name} {metadata.version(name)}\n"


def _file(folder: Path, name: str) -> Path:
    return folder / digest() / f"{name}.json.gz"
