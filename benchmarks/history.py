"""A history as it is after years: how long what is done every day takes in it.

Each of our own runs of a home is there so many times, earlier each time. Copies are rows of the
warehouse alone: nothing landed of them.
"""

import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.child import seconds
from benchmarks.contract import Benchmark, Figure, Outcome, Say, tabulated
from warehouse.connection import connect
from warehouse.durable_files import scratch
from warehouse.home import HISTORY, MAIN, home
from warehouse.landing import land
from warehouse.ledger import FitRecord
from warehouse.publication import publish
from warehouse.records import BadInput, Prediction, Run
from warehouse.tables import SCHEMAS
from warehouse.warehouse import QUERIES, Warehouse, run_query

_SHIFTED = """
    repeat + 1000 * number AS repeat,
    started_at - number * INTERVAL 1 DAY AS started_at,
    ended_at - number * INTERVAL 1 DAY AS ended_at
"""
_LEDGER_ROWS = 10_000
_SLOWEST = 10
"""Queries that are shown."""


def measure(sizes: Mapping[str, int], progress: Say) -> Outcome:
    """Measure in a copy of the history of this home whose own runs are there `factor` times.

    Raises:
        BadInput: the home has no history.
    """
    if not (home() / HISTORY).exists():
        raise BadInput(f"no history in {home()} yet; `stepcast load data/reference` brings one")
    with scratch(home()) as place:
        place.mkdir()
        shutil.copyfile(home() / HISTORY, place / MAIN)
        progress("grow")
        grow(place, sizes["factor"])
        warehouse = Warehouse(place)
        with connect(place / MAIN) as connection:
            runs, timings, some = connection.execute(
                "SELECT (SELECT count(*) FROM raw.run), "
                "(SELECT count(*) FROM raw.timing), "
                "(SELECT any_value(run_id) FROM raw.timing)"
            ).fetchall()[0]
        publish_s = load_s = 0.0
        for number in range(3):  # the last counts
            progress(f"load a run, {number + 1} of 3")
            land(place / "landing", _traced_run(f"more-{number}"), None, {})
            load_s = seconds(lambda: warehouse.load())
            with connect(place / MAIN) as connection:
                connection.execute("CREATE OR REPLACE TABLE meta.again AS SELECT random()")
                publish_s = seconds(lambda: publish(connection, place / MAIN, place / HISTORY))
        copy_s = seconds(lambda: shutil.copyfile(place / HISTORY, place / "copy"))
        progress("10,000 forecasts")
        ledger_s = seconds(lambda: _write_forecasts(warehouse))
        progress("all queries")
        queries_s = _queries_s(place)
        within = sum(time_s < 1 for time_s in queries_s.values())
        return tabulated(
            Figure("runs", runs, "", sizes["factor"], "this home, without runs of others"),
            Figure("timings", timings, ""),
            Figure("the history", (place / MAIN).stat().st_size / 1e6, "MB"),
            Figure("timings of one run", seconds(lambda: warehouse.visible("timing", [some])), "s"),
            Figure("publish", publish_s, "s", publish_s / copy_s, "a copy of the file"),
            Figure("load one more run, and publish", load_s, "s", load_s / publish_s, "publish"),
            Figure("write 10,000 forecasts, and publish", ledger_s, "s"),
            *(Figure(f"query {name}", s, "s") for name, s in list(queries_s.items())[:_SLOWEST]),
            notes=(f"{within} of {len(queries_s)} queries take less than a second.",),
        )


def _traced_run(run_id: str) -> Run:
    """Return a run of nobody's machine."""
    now = datetime.now(UTC)
    return Run(
        run_id=run_id,
        probe="tf_trace",
        purpose="profile",
        study="benchmark",
        repeat=1,
        scenario_id=None,
        backend="imported",
        status="ok",
        started_at=now,
        ended_at=now,
        host_id="benchmark",
        host={},
        software={},
        config={},
    )


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
    warehouse.record(fits=[fit])
    warehouse.record(
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
            times_s[file.stem] = seconds(partial(run_query, connection, file.stem, {}))
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


BENCHMARK = Benchmark(
    "What is done every day, in a copy of this home's history that is grown: each own run factor "
    "times.",
    "A home with a history; a minute and 1 GB of the home with the reference runs loaded.",
    measure,
    {"factor": 6},
)
