"""A history as it is after years: how long what is done every day takes in it.

Each of our own runs of a home is there so many times, earlier each time. Copies are rows of the
warehouse alone: nothing landed of them.
"""

import shutil
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.child import seconds
from benchmarks.history import land_run
from benchmarks.traces import a_run
from warehouse.connection import connect
from warehouse.durable_files import scratch
from warehouse.home import HISTORY, MAIN, home
from warehouse.landing import land
from warehouse.ledger import FitRecord
from warehouse.loader import LARGE_ROWS
from warehouse.publication import publish
from warehouse.records import BadInput, Prediction
from warehouse.tables import SCHEMAS
from warehouse.warehouse import QUERIES, Interrupted, Warehouse, run_query

_SHIFTED = """
    repeat + 1000 * number AS repeat,
    started_at - number * INTERVAL 1 DAY AS started_at,
    ended_at - number * INTERVAL 1 DAY AS ended_at
"""
_LEDGER_ROWS = 10_000
LARGE_RUN_ROWS = 5 * LARGE_ROWS
_PATIENCE_S = 20.0
"""After so long a query is ended."""


@dataclass(frozen=True)
class LargeHistoryReport:
    """Seconds of what is done every day, in a history of `runs`, `megabytes` large.

    `whole_publication_s` copies the history, `publication_s` the blocks that differ after one more
    run; `load_s` loads that run, publication included; `ledger_s` writes 10,000 forecasts.
    `load_large_s` load runs of `LARGE_RUN_ROWS` timings, which stay in Parquet, in their order.
    `queries_s` are of all ready queries without parameters, the slowest first; `own_timings_s`
    reads the timings of one run that has few.
    """

    runs: int
    timings: int
    megabytes: float
    load_large_s: tuple[float, ...]
    own_timings_s: float
    whole_publication_s: float
    publication_s: float
    load_s: float
    ledger_s: float
    queries_s: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures by name."""
        return asdict(self)


def measure(
    factor: int, progress: Callable[[str], None], *, large_runs: int = 0
) -> LargeHistoryReport:
    """Measure in a copy of the history of this home whose runs are there `factor` times.

    `large_runs` have `LARGE_RUN_ROWS` timings each.

    Raises:
        BadInput: the home has no history.
    """
    if not (home() / HISTORY).exists():
        raise BadInput(f"no history in {home()} yet; `stepcast load data/reference` brings one")
    with scratch(home()) as place:
        place.mkdir()
        shutil.copyfile(home() / HISTORY, place / MAIN)
        progress("grow")
        grow(place, factor)
        warehouse, copies_s, loads_s, load_large_s = Warehouse(place), [], [], []
        for number in range(large_runs):
            progress(f"load {LARGE_RUN_ROWS:,} timings, {number + 1} of {large_runs}")
            land_run(place / "landing", f"large-{number:04}", LARGE_RUN_ROWS, number)
            load_large_s.append(seconds(lambda: warehouse.load()))
        with connect(place / MAIN) as connection:
            runs, timings, some = connection.execute(
                "SELECT (SELECT count(*) FROM raw.run), "
                "(SELECT count(*) FROM raw.timing) "
                "+ (SELECT coalesce(sum(rows), 0) FROM meta.timing_file), "
                "(SELECT any_value(run_id) FROM raw.timing)"
            ).fetchall()[0]
        for number in range(3):  # the second has nothing to compare with, the third has
            progress(f"load a run, {number + 1} of 3")
            land(place / "landing", a_run(f"more-{number}"), None, {})
            loads_s.append(seconds(lambda: warehouse.load()))
            with connect(place / MAIN) as connection:
                connection.execute("CREATE OR REPLACE TABLE meta.again AS SELECT random()")
                copies_s.append(seconds(lambda: publish(connection, place / MAIN, place / HISTORY)))
        progress("10,000 forecasts")
        ledger_s = seconds(lambda: _write_forecasts(warehouse))
        progress("all queries")
        return LargeHistoryReport(
            runs,
            timings,
            (place / MAIN).stat().st_size / 1e6,
            tuple(load_large_s),
            seconds(lambda: warehouse.visible("timing", [some])),
            _whole_publication_s(place),
            copies_s[-1],
            loads_s[-1],
            ledger_s,
            _queries_s(place),
        )


def _whole_publication_s(place: Path) -> float:
    with connect(place / MAIN) as connection:
        connection.execute("CREATE OR REPLACE TABLE meta.again AS SELECT random()")
        return seconds(lambda: publish(connection, place / MAIN, place / HISTORY))


def _write_forecasts(warehouse: Warehouse) -> None:
    now = datetime.now(UTC)
    fit = FitRecord(
        system="async_sgd",
        model_version="benchmark",
        parameters={},
        run_ids=("more-0",),
        row_filter="none",
        row_count=0,
        data_hash="benchmark",
        backend="imported",
        host_id="benchmark",
        code_version="benchmark",
        created_at=now,
    )
    warehouse.record_fit(fit)
    warehouse.record_predictions(
        [
            Prediction(
                system="async_sgd",
                model_version="benchmark",
                fit_id=fit.fit_id,
                subject_id=f"{number:016x}",
                backend="imported",
                host_id="benchmark",
                study="benchmark",
                repeat=1,
                metric="step_time_s",
                unit="s",
                value=1.0,
                low=None,
                high=None,
                code_version="benchmark",
                made_at=now,
            )
            for number in range(_LEDGER_ROWS)
        ]
    )


def _queries_s(place: Path) -> dict[str, float]:
    times_s = {}
    with connect(place / HISTORY, read_only=True) as connection:
        for file in sorted(QUERIES.glob("*.sql")):
            end = threading.Timer(_PATIENCE_S, connection.interrupt)
            end.start()
            started = time.perf_counter()
            with suppress(Interrupted):
                run_query(connection, file.stem, {})
            times_s[file.stem] = time.perf_counter() - started
            end.cancel()
    return dict(sorted(times_s.items(), key=lambda item: -item[1]))


def grow(home: Path, factor: int) -> None:
    """Copy our own runs of a home until there are `factor` times as many, and publish them.

    What others measured stays as it is: a set of public measurements comes once.
    """
    own_runs = "run_id IN (SELECT run_id FROM raw.run WHERE backend <> 'imported')"
    shifted = {("raw", "run"): _SHIFTED}
    with connect(home / MAIN) as connection:
        for schema, table in [("meta", "loaded"), *(("raw", name) for name in SCHEMAS)]:
            columns = ["run_id || format('-{:03}', number) AS run_id"]
            columns += filter(None, [shifted.get((schema, table))])
            connection.execute(
                f'CREATE TEMP TABLE before AS FROM {schema}."{table}" WHERE {own_runs}'
            )
            connection.execute(
                f'INSERT INTO {schema}."{table}" BY NAME '
                f"SELECT before.* REPLACE ({', '.join(columns)}) "
                "FROM before, range(1, $factor) AS numbers(number)",
                {"factor": factor},
            )
            connection.execute("DROP TABLE before")
        publish(connection, home / MAIN, home / HISTORY)
