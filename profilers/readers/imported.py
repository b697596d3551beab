"""What a reader of somebody else's measurements returns, and how it opens their files."""

import gzip
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, cast

import polars as pl

from profilers.result import Setting
from warehouse.records import BadInput


@dataclass(frozen=True)
class Options:
    """What a user may add to a file: ranks of an all-reduce log, the mapping of a CSV."""

    world_size: int | None = None
    mapping: Path | None = None


@dataclass(frozen=True)
class Imported:
    """One run that others made.

    `tables` are frames named as raw tables, without run_id. `config` is what the file says of the
    run, `host` of the machine (empty: nothing), `software` of versions, `started_at` of the time.
    `notes` are for the user who imports it.
    """

    tables: Mapping[str, pl.DataFrame]
    config: Mapping[str, Setting] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    notes: tuple[str, ...] = ()


@contextmanager
def opened(path: Path) -> Iterator[IO[str]]:
    """Open a text file, gzipped or not.

    Raises:
        BadInput: also while it is read: the file is missing, a folder, or broken gzip.
    """
    if not path.is_file():
        found = "a folder" if path.is_dir() else "not there"
        raise BadInput(f"{path} is {found}; expected a file to import")
    with path.open("rb") as start:
        packed = start.read(2) == b"\x1f\x8b"
    try:
        with cast(
            IO[str],
            gzip.open(path, "rt", encoding="utf-8", errors="replace")
            if packed
            else path.open(encoding="utf-8", errors="replace"),
        ) as file:
            yield file
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{path}: broken gzip ({error}); fetch the file again") from error


def read_text(path: Path) -> str:
    """Return the text of a file, gzipped or not.

    Raises:
        BadInput: the file is missing, a folder, or broken gzip.
    """
    with opened(path) as file:
        return file.read()
