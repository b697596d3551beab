"""The warehouse as other rooms see it: load, what predictors may see, ledger, reports."""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa

from warehouse import kept_answers, ledger, limits, loader
from warehouse import seal as sealed_forecasts
from warehouse.connection import (
    connect,
    first_line,
    is_damage,
    presence,
    run,
    with_place,
)
from warehouse.durable_files import sweep
from warehouse.home import HISTORY, MAIN
from warehouse.ledger import FitRecord
from warehouse.loader import LoadReport
from warehouse.publication import ensure_warehouse, open_published, publish
from warehouse.records import Backend, BadInput, Prediction, Price, Recommendation, Scenario
from warehouse.tables import CHUNK_ROWS, SCHEMAS, one_line
from warehouse.upkeep import bring_up_to_date, drop_spilled

QUERIES = Path(__file__).parent / "queries"
_EXPLAIN = re.compile(r"\s*EXPLAIN\b\s*(ANALYZE\b)?", re.IGNORECASE)
_READS = re.compile(
    r"seq_scan|parquet_\w+|read_parquet|range|generate_series|unnest|repeat(_row)?|json_each|"
    r"json_tree|summary|duckdb_\w+|pragma_\w+|test_all_types|icu_calendar_names|pg_timezone_names"
)
"""Functions that give tables and do nothing else; others write logs, profiles and checkpoints,
follow addresses in memory, or run SQL that no plan shows."""


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
            return ledger.recommendation_id(recommendation)
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

    def predictions(self, study: str, repeat: int) -> pl.DataFrame:
        """Return the ledger's rows of one round of a study."""
        return self.query("predictions", study=study, repeat=repeat)

    def accuracy(self) -> pl.DataFrame:
        """Return `report.accuracy`: one row per judged prediction."""
        return self.query("judged")

    def leaderboard(self) -> pl.DataFrame:
        """Return `report.leaderboard`: one row per system, backend, split and metric."""
        return self.query("leaderboard")

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
    connection: duckdb.DuckDBPyConnection,
    name: str,
    params: Mapping[str, str | int | float | None],
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


def read_only(home: Path, sql: str, values: Mapping[str, object] | None = None) -> pl.DataFrame:
    """Run SQL on the published history and return the rows of its one statement.

    `values` are those of its parameters, if it has some.

    Raises:
        BadInput: as `stream`, or the rows take more than `limits.SQL_ANSWER_BYTES`.
    """
    frames: list[pl.DataFrame] = []
    left_bytes = limits.SQL_ANSWER_BYTES
    for frame in stream(home, sql, values):
        left_bytes -= int(frame.estimated_size())
        if left_bytes < 0:
            raise BadInput(
                f"the answer takes more than {limits.SQL_ANSWER_BYTES / 2**20:,.0f} MiB; ask for "
                "fewer rows or columns"
            )
        frames.append(frame)
    return pl.concat(frames)


def stream(
    home: Path, sql: str, values: Mapping[str, object] | None = None
) -> Iterator[pl.DataFrame]:
    """Run SQL on the published history and yield the rows of its one statement as they come.

    The first frame has none.

    Raises:
        BadInput: there is no history yet, the SQL is wrong, it would do anything but read the
            history, or needs more than `limits.SQL_MEMORY` and `limits.SQL_SPILL`.
    """
    settings = {"memory_limit": limits.SQL_MEMORY, "max_temp_directory_size": limits.SQL_SPILL}
    main, history = home / MAIN, home / HISTORY
    with open_published(main, history, any_version=True, settings=settings) as connection:
        try:
            _check_reads(connection, sql, values)
            with connection.execute(sql, values or None).to_arrow_reader(CHUNK_ROWS) as reader:
                yield _frame(reader.schema.empty_table())
                for batch in reader:
                    yield _frame(pa.Table.from_batches([batch]))
        except duckdb.Error as error:
            if is_damage(error):
                raise
            raise BadInput(with_place(error)) from error
        except MemoryError:
            raise
        except (
            pl.exceptions.PolarsError,
            pl.exceptions.PanicException,
            pa.ArrowException,
        ) as error:
            raise BadInput(f"{one_line(error)}; cast the column to another type") from error


def _frame(rows: pa.Table) -> pl.DataFrame:
    for field in rows.schema:
        if "interval" in str(field.type):
            raise BadInput(f"{field.name} is {field.type}; cast the column, e.g. with epoch()")
    frame = pl.from_arrow(rows)
    assert isinstance(frame, pl.DataFrame)
    return frame


def _check_reads(
    connection: duckdb.DuckDBPyConnection, sql: str, values: Mapping[str, object] | None
) -> None:
    """Refuse what is not one statement that reads, views and macros that it uses included.

    Raises:
        BadInput: it is not.
    """
    asked = _statement(connection, sql)
    if asked.type == duckdb.StatementType.EXPLAIN:
        asked = _statement(connection, _EXPLAIN.sub("", asked.query, 1))
    if asked.type != duckdb.StatementType.SELECT:
        raise BadInput(f"the history is read-only: it takes SELECT, not {asked.type.name}")
    plan = connection.execute(f"EXPLAIN (FORMAT json) {asked.query}", values or None).fetchall()
    functions = connection.execute(
        "SELECT function_name FROM system.main.duckdb_functions() WHERE function_type = 'table'"
    ).fetchall()
    acting = {name for (name,) in functions if not _READS.fullmatch(name)}
    operators = {name.strip().lower() for _, part in plan for name in _operators(json.loads(part))}
    if found := acting & operators:
        raise BadInput(f"the history is read-only: function {min(found)} is not for it")


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> duckdb.Statement:
    statements = connection.extract_statements(sql)
    if not statements:
        raise BadInput('no SQL statement given; try "SELECT * FROM report.accuracy"')
    for statement in statements:
        if statement.type not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
            raise BadInput(f"the history is read-only: it takes SELECT, not {statement.type.name}")
    if len(statements) > 1:
        raise BadInput(f"expected one SQL statement, found {len(statements)}; ask each")
    return statements[0]


def _operators(plan: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the names of operators of a plan."""
    for operator in plan:
        yield str(operator["name"])
        yield from _operators(operator["children"])
