"""A history as it is after years: how long what is done every day takes in it.

Each of our own runs of a home is there so many times, earlier each time. Copies are rows of the
warehouse alone: nothing landed of them.
"""

import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.child import seconds
from benchmarks.contract import Benchmark, Figure, Outcome, Say, tabulated
from warehouse.connection import connect
from warehouse.durable_files import scratch
from warehouse.home import HISTORY, MAIN, home
from warehouse.landing import land
from warehouse.ledger import FitRecord
from warehouse.publication import publish
from warehouse.records import (
    BadInput,
    NodeGroup,
    Prediction,
    Run,
    Scenario,
    Strategy,
    TrainingWorkload,
)
from warehouse.tables import SCHEMAS
from warehouse.warehouse import QUERIES, Interrupted, Warehouse, run_query

if TYPE_CHECKING:
    import pyarrow as pa

STEP_OPERATIONS = 1000
"""Operations of a training step: a network of 100 layers or so."""
_SHIFTED = """
    repeat + 1000 * number AS repeat,
    started_at - number * INTERVAL 1 DAY AS started_at,
    ended_at - number * INTERVAL 1 DAY AS ended_at
"""
_LEDGER_ROWS = 10_000
LARGE_RUN_ROWS = 5_000_000
_SLOWEST = 10
"""Queries that are shown."""
_PATIENCE_S = 20.0
"""After so long a query is ended."""


def measure(sizes: Mapping[str, int], progress: Say) -> Outcome:
    """Measure in a copy of the history of this home whose own runs are there `factor` times.

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
        grow(place, sizes["factor"])
        warehouse, large_s = Warehouse(place), list[float]()
        for number in range(sizes["large_runs"]):
            progress(f"load {LARGE_RUN_ROWS:,} timings, {number + 1} of {sizes['large_runs']}")
            land_run(place / "landing", f"large-{number:04}", LARGE_RUN_ROWS, number)
            large_s.append(seconds(lambda: warehouse.load()))
        with connect(place / MAIN) as connection:
            runs, timings, some = connection.execute(
                "SELECT (SELECT count(*) FROM raw.run), "
                "(SELECT count(*) FROM raw.timing), "
                "(SELECT any_value(run_id) FROM raw.timing)"
            ).fetchall()[0]
        publish_s = load_s = 0.0
        for number in range(3):  # the last counts
            progress(f"load a run, {number + 1} of 3")
            land(place / "landing", traced_run(f"more-{number}"), None, {})
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
            *(
                Figure("load 5 million timings", time_s, "s", time_s / large_s[0], "the first")
                for time_s in large_s[-1:]
            ),
            Figure("timings of one run", seconds(lambda: warehouse.visible("timing", [some])), "s"),
            Figure("publish", publish_s, "s", publish_s / copy_s, "a copy of the file"),
            Figure("load one more run, and publish", load_s, "s", load_s / publish_s, "publish"),
            Figure("write 10,000 forecasts, and publish", ledger_s, "s"),
            *(Figure(f"query {name}", s, "s") for name, s in list(queries_s.items())[:_SLOWEST]),
            notes=(f"{within} of {len(queries_s)} queries take less than a second.",),
        )


def land_run(landing: Path, run_id: str, rows: int, seed: int) -> None:
    """Land a traced run of so many timings."""
    import polars as pl
    import pyarrow as pa

    columns = ("step", "operation", "start_us", "duration_us")
    schema = pa.schema([(name, pa.int32()) for name in columns])
    numbers = range(STEP_OPERATIONS)
    operation = pl.DataFrame(
        {
            "operation": numbers,
            "name": [f"layer_{i // 10}/operation_{i}" for i in numbers],
            "type": [f"Type{i % 60}" for i in numbers],
            "resource": ["worker"] * STEP_OPERATIONS,
            "server": None,
            "size_bytes": None,
        }
    )
    scenario = Scenario(
        workload=TrainingWorkload(dnn="benchmark", image_size=224, batch_size=32),
        strategy=Strategy(workers=1),
        nodes=(
            NodeGroup(role="worker", node_type="emu.avx2.1c", count=1),
            NodeGroup(role="server", node_type="emu.server", count=1),
        ),
    )
    timing = pa.RecordBatchReader.from_batches(schema, _timings(schema, seed, rows))
    tables = {"operation": operation, "timing": timing}
    land(landing, traced_run(run_id, scenario.scenario_id), scenario, tables)


def _timings(schema: "pa.Schema", seed: int, rows: int) -> Iterator["pa.RecordBatch"]:
    import numpy as np
    import pyarrow as pa

    chance = np.random.default_rng(seed)
    for first in range(0, rows, 100 * STEP_OPERATIONS):
        index = np.arange(first, min(first + 100 * STEP_OPERATIONS, rows))
        operation = index % STEP_OPERATIONS
        columns = [
            index // STEP_OPERATIONS,
            operation,
            operation * 300 + chance.integers(100, size=len(index)),
            50 + operation * 3 + chance.integers(200, size=len(index)),
        ]
        yield pa.record_batch([column.astype(np.int32) for column in columns], schema=schema)


def traced_run(run_id: str, scenario_id: str | None = None) -> Run:
    """Return a run of nobody's machine."""
    now = datetime.now(UTC)
    return Run(
        run_id=run_id,
        probe="tf_trace",
        purpose="profile",
        study="benchmark",
        repeat=1,
        scenario_id=scenario_id,
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


BENCHMARK = Benchmark(
    "What is done every day, in a copy of this home's history that is grown: each own run factor "
    "times, and large_runs of 5 million timings.",
    "A home with a history; a minute and 1 GB of the home with the reference runs loaded, 10 s and "
    "0.3 GB more for each large run.",
    measure,
    {"factor": 6, "large_runs": 0},
)
