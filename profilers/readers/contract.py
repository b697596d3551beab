"""What a reader of somebody else's measurements returns, how it opens files, and its bounds."""

import gzip
import io
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Annotated

import msgspec
import polars as pl
from pydantic import Field

from profilers.commands import BoundedFile
from profilers.probe import Setting
from warehouse import limits
from warehouse.records import BadInput, Record

_PIECE_BYTES = 1 << 20


class ReaderOptions(Record):
    """What a user may add to a file: each format takes some of it."""

    world_size: int | None = Field(
        default=None, ge=1, description="nccl-tests: ranks, where the log does not say."
    )
    mapping: Path | None = Field(
        default=None, description="csv: the columns; else the mapping of the file's name."
    )
    worker: str | None = Field(
        default=None, description="kineto, nccl-tests, iperf3: the node type on which you measured."
    )


@dataclass(frozen=True)
class ImportedRun:
    """One run that others made.

    `tables` are frames named as raw tables, without run_id. `config` is what the file says of the
    run, `host` of the machine (empty: nothing), `software` of versions, `started_at` of the time.
    `left_out` counts what the file has and the tables lack, by why; `notes` are for the user who
    imports it.
    """

    tables: Mapping[str, pl.DataFrame]
    config: Mapping[str, Setting] = field(default_factory=dict)
    host: Mapping[str, str] = field(default_factory=dict)
    software: Mapping[str, str] = field(default_factory=dict)
    started_at: datetime | None = None
    left_out: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@contextmanager
def open_unpacked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, gzipped or not, for its unpacked bytes.

    Raises:
        BadInput: also while it is read: the file is missing, a folder, broken gzip, or longer than
            `limits.UNPACKED_BYTES`.
    """
    if not path.is_file():
        state = "a folder" if path.is_dir() else "not there"
        raise BadInput(f"{path} is {state}; expected a file to import")
    try:
        with path.open("rb") as packed:
            is_packed = packed.read(2) == b"\x1f\x8b"
            packed.seek(0)
            plain = gzip.GzipFile(fileobj=packed) if is_packed else packed
            too_long = BadInput(f"{path}: {_longer(limits.UNPACKED_BYTES)}")
            bounded = BoundedFile(plain.readinto1, limits.UNPACKED_BYTES, too_long)
            yield io.BufferedReader(bounded, _PIECE_BYTES)
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise BadInput(f"{path}: broken gzip ({error}); fetch the file again") from error


@contextmanager
def open_text(path: Path) -> Iterator[IO[str]]:
    """Open a text file, gzipped or not; bytes that are no UTF-8 become U+FFFD.

    Raises:
        BadInput: as `open_unpacked`.
    """
    with open_unpacked(path) as file:
        yield io.TextIOWrapper(file, encoding="utf-8-sig", errors="replace")


def read_bytes(path: Path, most: int = limits.TEXT_BYTES) -> bytes:
    """Return the unpacked bytes of a file, gzipped or not.

    Raises:
        BadInput: as `open_unpacked`, or there are more than `most`.
    """
    content = bytearray()
    with open_unpacked(path) as file:
        # In pieces: a buffer for all that is allowed would be allocated at once, and gzip's beside.
        while len(content) <= most and (piece := file.read(_PIECE_BYTES)):
            content += piece
    if len(content) > most:
        raise BadInput(f"{path}: {_longer(most)}")
    return bytes(content)


def lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line of a file, without its end.

    Raises:
        BadInput: as `open_text`, a line is longer than `limits.LINE_CHARACTERS`, or all together
            are longer than `limits.TEXT_BYTES`.
    """
    with open_text(path) as file:
        number, left = 0, limits.TEXT_BYTES
        while line := file.readline(limits.LINE_CHARACTERS + 1):
            number += 1
            left -= len(line)
            if len(line) > limits.LINE_CHARACTERS and not line.endswith("\n"):
                raise BadInput(
                    f"{path} line {number}: longer than {limits.LINE_CHARACTERS:,} characters; "
                    "is it a text?"
                )
            if left < 0:
                raise BadInput(f"{path}: {_longer(limits.TEXT_BYTES)}")
            yield number, line.removesuffix("\n")


class MemoryCounter:
    """Counts what a reader keeps of one file, so that its memory has a bound."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._events = 0
        self._characters = 0

    def event(self, count: int = 1) -> None:
        """Count things that are kept.

        Raises:
            BadInput: with them they are more than `limits.EVENTS`.
        """
        self._events += count
        if self._events > limits.EVENTS:
            raise BadInput(
                f"{self._path}: more than {limits.EVENTS:,} events or rows to keep; record fewer "
                "steps, or import parts of it"
            )

    def text(self, text: str) -> None:
        """Count a text that was not there before.

        Raises:
            BadInput: with it they are longer than `limits.KEPT_CHARACTERS`.
        """
        self._characters += len(text)
        if self._characters > limits.KEPT_CHARACTERS:
            raise BadInput(
                f"{self._path}: names and shapes of more than {limits.KEPT_CHARACTERS:,} "
                "characters in all; record fewer steps, or import parts of it"
            )


def _longer(most: int) -> str:
    return f"longer than {most / 2**20:,.0f} MiB when unpacked; import parts of it"


MOST = 2**63 - 1
"""The largest integer of a column."""
MOST_US = 2**31 - 1
"""The largest time in a step that a column holds, microseconds: 2,147 s."""

WholeNumber = Annotated[int, msgspec.Meta(ge=-MOST - 1, le=MOST)]
Time_us = Annotated[float, msgspec.Meta(ge=-(2.0**60), le=2.0**60)]
Duration_us = Annotated[float, msgspec.Meta(ge=0, le=2.0**60)]

NO_EVENTS = ("", "M", "s", "t", "f")
"""Phases of Chrome's trace format that are no events: names of processes, arrows between events."""

_MOST_REASONS, _NAME_CHARACTERS = 32, 60
_OTHERS = "others", None
_HALF = re.compile("[\ud800-\udfff]")
_encode = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode


class OmissionCounter:
    """Counts what a file has and the tables lack, by why, for a bounded number of reasons."""

    def __init__(self) -> None:
        self._counted: Counter[tuple[str, str | None]] = Counter()

    def add(self, what: str, name: str | None = None, count: int = 1) -> None:
        """Count things that are left out; `name` is what the file calls them."""
        reason = what, name if name is None else name[:_NAME_CHARACTERS]
        if reason not in self._counted and len(self._counted) >= _MOST_REASONS:
            reason = _OTHERS
        self._counted[reason] += count

    def __call__(self) -> dict[str, int]:
        """Return the counts that are not 0."""
        return {
            what if name is None else f"{what} {name!r}": count
            for (what, name), count in self._counted.items()
            if count
        }


def product(factors: Iterable[int]) -> int | None:
    """Return the product of factors, or None if it does not fit a column.

    Ends early: the product of a million factors has millions of digits.
    """
    value = 1
    for factor in factors:
        value *= factor
        if abs(value) > MOST:
            return None
    return value


def clean(text: str) -> str:
    """Return a text of JSON with halves of characters replaced by U+FFFD, as UTF-8 has none."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def as_json(value: object, where: object) -> str:
    """Return a parsed JSON value as the JSON that a column holds.

    Raises:
        BadInput: it is nested too deeply, or has a number beyond what JSON has.
    """
    try:
        return clean(_encode(value))
    except (RecursionError, ValueError) as error:
        raise BadInput(f"{where}: a value that no column holds ({error})") from None
