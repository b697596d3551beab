"""The history of a service: what was read of it once is at hand, until another is published."""

import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import duckdb
import polars as pl

from warehouse.connection import writer_of
from warehouse.history import PublishedHistory
from warehouse.home import MAIN
from warehouse.ledger import FitRecord
from warehouse.records import Backend, Prediction, Price, Scenario, StepcastError
from warehouse.warehouse import Warehouse

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

    def record_asked(
        self,
        fits: Sequence[FitRecord],
        scenarios: Sequence[Scenario],
        predictions: Sequence[Prediction],
        prices: Iterable[Sequence[Price]] = (),
    ) -> int:
        """Keep fits, which take half a minute, unless the home is read-only or in use; no more."""
        main = self.home / MAIN
        with _WRITING, suppress(StepcastError):
            if fits and os.access(main, os.W_OK) and writer_of(main) is None:
                Warehouse(self.home).record_fit(*fits)
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
