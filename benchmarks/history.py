"""Parquet → DuckDB, and questions to a history of many operations."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.child import best_of, seconds
from benchmarks.traces import STEP_OPERATIONS, a_run
from warehouse.records import NodeGroup, Scenario, Strategy, TrainingWorkload

if TYPE_CHECKING:
    import pyarrow as pa

RUN_ROWS = 400 * STEP_OPERATIONS
"""Timings of one run: 400 traced steps."""
_REPEATS = 3
_ALL_TIMINGS = """
    WITH spent AS (
        SELECT run_id, operation, sum(duration_us) AS us FROM report.timing GROUP BY ALL
    )
    SELECT type, sum(us) AS us FROM spent JOIN raw.operation USING (run_id, operation)
    GROUP BY type ORDER BY us DESC
"""


def land_runs(home: str, rows: int, run_rows: int) -> float:
    """Land runs of `run_rows` timings until there are `rows`."""
    for number in range(max(rows // run_rows, 1)):
        land_run(Path(home, "landing"), f"run-{number:06d}", run_rows, number)
    return 0.0


def land_run(landing: Path, run_id: str, rows: int, seed: int) -> None:
    """Land a run of so many timings."""
    import polars as pl
    import pyarrow as pa

    from warehouse.landing import land

    schema = pa.schema(
        [(name, pa.int32()) for name in ("step", "operation", "start_us", "duration_us")]
    )
    scenario = _scenario()
    numbers = range(STEP_OPERATIONS)
    operations = pl.DataFrame(
        {
            "operation": numbers,
            "name": [f"layer_{i // 10}/operation_{i}" for i in numbers],
            "type": [f"Type{i % 60}" for i in numbers],
            "resource": ["worker"] * STEP_OPERATIONS,
            "server": None,
            "size_bytes": None,
        }
    )
    timing = pa.RecordBatchReader.from_batches(schema, _timings(schema, seed, rows))
    tables = {"operation": operations, "timing": timing}
    land(landing, a_run(run_id, scenario.scenario_id), scenario, tables)


def load(home: str) -> float:
    """Load what landed with the loader, each time into a new warehouse."""
    from warehouse import loader
    from warehouse.connection import connect
    from warehouse.publication import ensure_warehouse

    def work(main: Path) -> float:
        main.unlink(missing_ok=True)
        ensure_warehouse(main)
        with connect(main) as connection:
            took = seconds(lambda: loader.load(Path(home, "landing"), connection))
            row = connection.execute("SELECT count(*) FROM meta.loaded").fetchone()
            assert row == (len(list(Path(home, "landing").iterdir())),)
            return took

    return min(work(Path(home, "warehouse.duckdb")) for _ in range(_REPEATS))


def load_plainly(home: str) -> float:
    """Peer: whole tables through pyarrow, unchecked and without statistics of operations."""
    import pyarrow.parquet as pq

    from warehouse.connection import connect
    from warehouse.publication import ensure_warehouse

    main = Path(home, "plain.duckdb")

    def work() -> None:
        with connect(main) as connection:
            for file in sorted(Path(home, "landing").glob("*/*.parquet")):
                connection.register("incoming", pq.read_table(file))
                connection.execute(f'INSERT INTO raw."{file.stem}" BY NAME FROM incoming')
                connection.unregister("incoming")

    def once() -> float:
        main.unlink(missing_ok=True)
        ensure_warehouse(main)
        return seconds(work)

    return min(once() for _ in range(_REPEATS))


def fill(home: str, rows: int, run_rows: int) -> float:
    """Copy the one run of a warehouse, each time a little slower, up to `rows` timings."""
    from warehouse.connection import connect, transaction

    slower = {
        "timing": "duration_us + $number::INTEGER AS duration_us",
        "operation_time": ", ".join(
            f"{name} + $number::INTEGER AS {name}"
            for name in ("mean_us", "median_us", "min_us", "p95_us")
        ),
    }
    tables = ("run", "scenario", "operation", "operation_time", "timing")
    with connect(Path(home, "warehouse.duckdb")) as connection:
        for table in tables:
            connection.execute(f'CREATE TEMP TABLE "{table}" AS FROM raw."{table}"')
        with transaction(connection):
            for number in range(1, rows // run_rows):
                for table in tables:
                    replaced = ", ".join(filter(None, ["$id AS run_id", slower.get(table)]))
                    values = {"id": f"run-{number:06d}", "number": number}
                    if table not in slower:
                        del values["number"]
                    connection.execute(
                        f'INSERT INTO raw."{table}" SELECT * REPLACE ({replaced}) FROM "{table}"',
                        values,
                    )
    return 0.0


def ask(home: str) -> float:
    """Answer the slower of two shipped queries: top operations of all runs, and of one run."""
    return max(
        _answered(home, (_shipped("top_operations"), {"dnn": None, "limit": 20})),
        _answered(home, (_shipped("run_operations"), {"run_id": "run-000000", "limit": 20})),
    )


def ask_all_timings(home: str) -> float:
    """Peer: top operations of all runs from every timing instead of the statistics."""
    return _answered(home, (_ALL_TIMINGS, None))


def _answered(home: str, question: tuple[str, dict[str, str | int | None] | None]) -> float:
    from warehouse.connection import connect

    with connect(Path(home, "warehouse.duckdb"), read_only=True) as connection:
        return best_of(_REPEATS, lambda: connection.execute(*question).fetchall())


def _shipped(name: str) -> str:
    from warehouse.warehouse import QUERIES

    return (QUERIES / f"{name}.sql").read_text()


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


def _scenario() -> Scenario:
    return Scenario(
        workload=TrainingWorkload(dnn="benchmark", image_size=224, batch_size=32),
        strategy=Strategy(workers=1),
        nodes=(
            NodeGroup(role="worker", node_type="emu.avx2.1c", count=1),
            NodeGroup(role="server", node_type="emu.server", count=1),
        ),
    )
