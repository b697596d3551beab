"""The warehouse as other rooms see it: load, what predictors may see, ledger, reports."""

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

import duckdb
import polars as pl

from warehouse import kept_answers, ledger, loader
from warehouse import seal as sealed_forecasts
from warehouse.connection import connect, first_line, presence, run
from warehouse.durable_files import sweep
from warehouse.home import HISTORY, MAIN
from warehouse.ledger import FitRecord
from warehouse.loader import LoadReport
from warehouse.publication import ensure_warehouse, publish
from warehouse.records import Backend, BadInput, Prediction, Price, Recommendation, Scenario
from warehouse.tables import SCHEMAS
from warehouse.upkeep import bring_up_to_date, drop_spilled

QUERIES = Path(__file__).parent / "queries"


class Warehouse:
    """The measurement history under `home`: warehouse.duckdb, history.duckdb and landing/.

    Every method opens the database, works and closes it; one that finds it held by another
    process waits for `PATIENCE_S` and then raises WarehouseBusy.
    """

    _records = True
    """Whether what it is asked to record is kept; else it is named as if it were."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.landing = home / "landing"
        self._main = home / MAIN
        self._held: duckdb.DuckDBPyConnection | None = None
        self._publishes = True

    def load(
        self, *, verify: bool = False, recheck: bool = True, publishes: bool = True
    ) -> LoadReport:
        """Load new landed runs and publish the history; a second time changes nothing.

        With `verify` a published copy that was damaged since is published again. Without `recheck`
        runs that were loaded are taken to be as they were: of them only names are read. Without
        `publishes` the next change publishes what was loaded.

        Raises:
            StepcastError: the machine cannot write; notes of the error have what was done before.
        """
        report = LoadReport()
        try:
            with self._changing(files=True, verify=verify, publishes=publishes) as connection:
                loader.load(self.landing, connection, recheck=recheck, report=report)
        except BaseException as error:
            if report.loaded:
                error.add_note(f"{len(report.loaded)} runs were loaded before")
            for line in report.not_loaded:
                error.add_note(line)
            raise
        return report

    def visible(self, table: str, run_ids: Sequence[str] | None = None) -> pl.DataFrame:
        """Return the rows of a raw table that predictors may see, of all or some runs, sorted."""
        return self.visible_tables([table], run_ids)[table]

    def visible_tables(
        self, tables: Sequence[str], run_ids: Sequence[str] | None = None
    ) -> dict[str, pl.DataFrame]:
        """Return what `visible` does of several tables, by name, as one moment left them."""
        if unknown := set(tables) - set(SCHEMAS):
            raise BadInput(f"no table {min(unknown)!r}; the tables are {', '.join(SCHEMAS)}")
        some, values = "", {}
        if run_ids is not None:
            # A join, so that blocks of other runs are left unread.
            some = "WHERE run_id IN (SELECT unnest($run_ids::VARCHAR[])) "
            values = {"run_ids": list(run_ids)}
        with self._open() as connection:
            return {
                table: run(
                    connection, f'SELECT * FROM visible."{table}" {some}ORDER BY ALL', values
                ).pl()
                for table in tables
            }

    def visible_row_counts(
        self, tables: Sequence[str], run_ids: Sequence[str]
    ) -> Mapping[str, int]:
        """Return how many rows `visible_tables` has of each run."""
        of_each = " UNION ALL ".join(
            f'SELECT run_id FROM visible."{table}" SEMI JOIN wanted USING (run_id)'
            for table in tables
        )
        counted = (
            "WITH wanted AS (SELECT unnest($run_ids::VARCHAR[]) AS run_id) "
            f"SELECT run_id, count(*) FROM ({of_each}) GROUP BY run_id"
        )
        with self._open() as connection:
            return dict(run(connection, counted, {"run_ids": list(run_ids)}).fetchall())

    def has_runs_on(self, backend: Backend) -> bool:
        """Tell whether anything ran on a backend: nothing was judged where nothing did."""
        with self._open() as connection:
            runs = "FROM raw.run WHERE backend = $backend LIMIT 1"
            return run(connection, runs, {"backend": backend}).fetchone() is not None

    def record(
        self,
        predictions: Sequence[Prediction] = (),
        *,
        fits: Sequence[FitRecord] = (),
        scenarios: Sequence[Scenario] = (),
        prices: Collection[Sequence[Price]] = (),
    ) -> int:
        """Append to the ledger what it lacks, and return how many of the predictions were new.

        Args:
            predictions: that are appended.
            fits: that they are of, or that were made for none.
            scenarios: that were merely asked about, so that no run tells what they are.
            prices: sets of these that predictions name.
        """
        if not self._records or not (predictions or fits or scenarios or prices):
            return 0
        with self._changing() as connection:
            for fit in fits:
                ledger.record_fit(connection, fit)
            for some in prices:
                ledger.record_prices(connection, some)
            ledger.record_scenarios(connection, scenarios)
            return ledger.record_predictions(connection, predictions)

    def record_recommendation(
        self, recommendation: Recommendation, prices: Sequence[Price] = ()
    ) -> str:
        """Append a recommendation to the ledger, unless it is there, and return its id.

        Its prices are written before, unless they are there already.
        """
        if not self._records:
            return ledger.content_id(recommendation)
        with self._changing() as connection:
            if prices:
                ledger.record_prices(connection, prices)
            return ledger.record_recommendation(connection, recommendation)

    def seal(
        self,
        study: str,
        repeat: int,
        subjects: Iterable[Scenario],
        folder: Path,
        sealed_at: datetime,
    ) -> tuple[Path, int]:
        """Write the forecasts of a round to a file; see `warehouse.seal.seal`."""
        with self._open() as connection:
            return sealed_forecasts.seal(connection, study, repeat, subjects, folder, sealed_at)

    def load_sealed(self, folder: Path) -> int:
        """Load sealed forecasts that are not there yet and return how many are new."""
        with self._changing() as connection:
            return sealed_forecasts.load(connection, folder)

    def query(self, name: str, /, **params: str | int | float | None) -> pl.DataFrame:
        """Run `queries/<name>.sql`; a parameter that is not given is NULL.

        Raises:
            BadInput: there is no such query or parameter, or a value is of another type.
        """
        known = sorted(path.stem for path in QUERIES.glob("*.sql"))
        if name not in known:
            raise BadInput(f"no query {name!r}; the queries are {', '.join(known)}")
        with self._open() as connection:
            return run_query(connection, name, params)

    def kept_query(self, name: str, /, **params: str | int | float | None) -> pl.DataFrame:
        """Run a query whose answer changes when runs are loaded alone; the home keeps its answer.

        So it is with judged forecasts, as later ones are judged by later runs. A kept answer is of
        the same query, views and loaded runs.
        """
        text = (QUERIES / f"{name}.sql").read_text() + json.dumps(params, sort_keys=True)
        with self._open() as connection:
            file = kept_answers.file_of(self.home, name, text, connection)
            if (kept := kept_answers.read(file)) is not None:
                return kept
            frame = run_query(connection, name, params)
        kept_answers.keep(frame, file)
        return frame

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Open the warehouse once for all that the block reads: opening takes longest.

        Other processes wait as long as the block takes, so nothing slow belongs there.
        """
        with self._open() as connection:
            self._held = connection
            try:
                yield
            finally:
                self._held = None

    @contextmanager
    def changing(self, *, publishes: bool = True) -> Iterator[None]:
        """Open the warehouse once for all that the block reads and writes; publish it at the end.

        Without `publishes` the next change publishes it. Each change is a transaction of its own
        all the same; runs are loaded before or after.
        """
        with self._changing(publishes=publishes) as connection:
            self._held, self._publishes = connection, False
            try:
                yield
            finally:
                self._held, self._publishes = None, True

    @contextmanager
    def _open(self, *, files: bool = False) -> Iterator[duckdb.DuckDBPyConnection]:
        """Open the warehouse; with `files`, to load what has landed."""
        if self._held is not None:
            yield self._held
            return
        ensure_warehouse(self._main)
        with (
            presence(self.home),
            connect(
                self._main,
                folders=[self.landing.absolute()] if files else (),
                settings={"memory_limit": loader.MEMORY} if files else {},
            ) as connection,
        ):
            bring_up_to_date(connection, self._main)
            yield connection

    @contextmanager
    def _changing(
        self, *, files: bool = False, verify: bool = False, publishes: bool = True
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        if not self._publishes and self._held is not None:
            yield self._held
            return
        sweep(self.home)
        with self._open(files=files) as connection:
            drop_spilled(self._main)
            yield connection
            if publishes:
                publish(connection, self._main, self.home / HISTORY, verify=verify)


def run_query(
    connection: duckdb.DuckDBPyConnection, name: str, params: Mapping[str, str | int | float | None]
) -> pl.DataFrame:
    """Run `queries/<name>.sql`; see `Warehouse.query`."""
    (statement,) = connection.extract_statements((QUERIES / f"{name}.sql").read_text())
    unknown = set(params) - statement.named_parameters
    if unknown:
        raise BadInput(f"query {name} has no parameter {', '.join(sorted(unknown))}")
    values = {name: params.get(name) for name in statement.named_parameters}
    try:
        return run(connection, statement.query, values).pl()
    except duckdb.DataError as error:
        raise BadInput(f"query {name}: {first_line(error)}") from error
