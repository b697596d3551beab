"""The history as it was published: read without the warehouse, which another process may hold."""

import os
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import duckdb
import polars as pl

from warehouse.connection import PATIENCE_S, writer_of
from warehouse.home import HISTORY, MAIN
from warehouse.landing import landed_run, landed_runs, run_folders, run_of
from warehouse.ledger import FitRecord
from warehouse.publication import explain_earlier_version, lag, open_published
from warehouse.records import Backend, BadInput, Run, StepcastError
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

_LOOKS_S = 0.1


class PublishedHistory(Warehouse):
    """The warehouse of `home` as it was published last: read from history.duckdb, never written.

    Reading takes no lock that a writer waits for, and writes no more into the home than answers
    that this keeps. What it is asked to record is named as the warehouse would name it, and not
    kept.
    """

    _records = False

    @contextmanager
    def _open(self, *, files: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        if self._held is not None:
            yield self._held
            return
        with open_published(self._main, self.home / HISTORY) as connection:
            yield connection

    @contextmanager
    def _changing(
        self, *, files: bool = False, verify: bool = False, publishes: bool = True
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        raise StepcastError(f"{self.home / HISTORY} is for reading; nothing is written to it")
        yield


_AT_HAND = 64
"""Answers of queries, those that were asked for last."""
_WRITING = Lock()
"""Whoever asks who holds a file drops the lock that this process has on it."""
T = TypeVar("T")


class ServedHistory(PublishedHistory):
    """A published history for one question; fits alone are kept, where the home can be written.

    Args:
        home: whose history it is.
        at_hand: answers that other questions about the same history have left.
    """

    def __init__(self, home: Path, at_hand: "OrderedDict[Hashable, Any]") -> None:
        super().__init__(home)
        self._at_hand = at_hand
        self._block: ExitStack | None = None

    def query(self, name: str, /, **params: str | int | float | None) -> pl.DataFrame:
        """Return what a query of Stepcast's does."""
        return self._once((name, *params.items()), partial(super().query, name, **params))

    def kept_query(self, name: str, /, **params: str | int | float | None) -> pl.DataFrame:
        """Return the same, of one whose answer the home keeps."""
        return self._once((name, *params.items()), partial(super().kept_query, name, **params))

    def visible_tables(
        self, tables: Sequence[str], run_ids: Sequence[str] | None = None
    ) -> dict[str, pl.DataFrame]:
        """Return the rows of some tables that predictors may see."""
        key = tuple(tables), None if run_ids is None else tuple(run_ids)
        return self._once(key, partial(super().visible_tables, tables, run_ids))

    def visible_row_counts(
        self, tables: Sequence[str], run_ids: Sequence[str]
    ) -> Mapping[str, int]:
        """Return how many rows these have of each run."""
        key = "counts", *tables, tuple(run_ids)
        return self._once(key, partial(super().visible_row_counts, tables, run_ids))

    def has_runs_on(self, backend: Backend) -> bool:
        """Tell whether anything ran on a backend."""
        return self._once(backend, partial(super().has_runs_on, backend))

    def _once(self, key: Hashable, read: Callable[[], T]) -> T:
        with suppress(KeyError):
            self._at_hand.move_to_end(key)
            found: T = self._at_hand[key]
            return found
        made = self._at_hand[key] = read()
        while len(self._at_hand) > _AT_HAND:
            with suppress(KeyError):  # who asks meanwhile takes some away, too
                self._at_hand.popitem(last=False)
        return made

    def record(
        self, predictions: object = (), *, fits: Sequence[FitRecord] = (), **_: object
    ) -> int:
        """Keep fits, which take half a minute, unless the home is read-only or in use; no more."""
        main = self.home / MAIN
        with _WRITING, suppress(StepcastError):
            if fits and os.access(main, os.W_OK) and writer_of(main) is None:
                Warehouse(self.home).record(fits=fits)
        return 0

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open the history once for all that the block reads, unless all of it is at hand."""
        with ExitStack() as self._block:
            try:
                yield
            finally:
                self._block = self._held = None

    @contextmanager
    def _open(self, *, files: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        if self._held is None and self._block is not None:
            self._held = self._block.enter_context(super()._open())
        with super()._open() as connection:
            yield connection


def describe_condition(home: Path, *, any_version: bool = False) -> str | None:
    """Say how old the history of a home is, where it is not all that there is; else None.

    Raises:
        BadInput: as `open_published`.
    """
    main, history = home / MAIN, home / HISTORY
    with open_published(main, history, any_version=any_version) as connection:
        behind = lag(connection)
        loaded = {run for (run,) in connection.execute("SELECT run_id FROM meta.loaded").fetchall()}
    if behind is not None:
        return explain_earlier_version(history, behind)
    writer = writer_of(main)
    waiting = sum(folder.name not in loaded for folder in run_folders(home / "landing"))
    if writer is None and not waiting:
        return None
    at = datetime.fromtimestamp(history.stat().st_mtime, UTC)
    age = f"this is the history of {at:%Y-%m-%d %H:%M} UTC, {_ago(datetime.now(UTC) - at)} old"
    if writer is not None:
        return f"{age}; {writer} is writing what is new"
    landed = "1 landed run is" if waiting == 1 else f"{waiting} landed runs are"
    return f"{age}: {landed} not in it yet; `stepcast load`"


def studies_of(home: Path) -> set[str]:
    """Return the studies of which runs are in a home, those that are not loaded yet too."""
    known: dict[str, str] = {}
    if (home / HISTORY).exists():
        known = dict(read_only(home, "SELECT run_id, study FROM raw.run").rows())
    studies = set(known.values())
    for folder in run_folders(home / "landing"):
        if folder.name not in known:
            with suppress(BadInput):
                studies.add(landed_run(folder).study)
    return studies


def known_runs(home: Path) -> list[Run]:
    """Return every whole landed run of a home, as `landed_runs`.

    Those that the published history has were checked when they were loaded: they are read from it,
    a thousand in a tenth of a second, and only others from their folders.
    """
    known: dict[str, Run] = {}
    if (home / HISTORY).exists():
        with suppress(BadInput):
            rows = read_only(home, "SELECT * FROM raw.run").iter_rows(named=True)
            known = {row["run_id"]: run_of(row) for row in rows}
    return landed_runs(home / "landing", known)


def explain_unwritable(home: Path) -> str | None:
    """Say why the warehouse of a home cannot be written, after waiting for another writer."""
    main = home / MAIN
    if not os.access(home, os.W_OK) or (main.exists() and not os.access(main, os.W_OK)):
        return f"{home} is read-only"
    until_s = time.monotonic() + PATIENCE_S
    while (writer := writer_of(main)) is not None:
        if time.monotonic() >= until_s:
            return f"{main} is held by {writer}"
        time.sleep(_LOOKS_S)
    return None


def _ago(age: timedelta) -> str:
    minutes = age / timedelta(minutes=1)
    if minutes < 120:
        return f"{max(minutes, 0):.0f} minutes"
    return f"{minutes / 60:.0f} hours" if minutes < 48 * 60 else f"{minutes / 1440:.0f} days"
