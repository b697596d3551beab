"""The benchmark of ingest, on few rows: that it measures what it says, not how fast that was."""

from pathlib import Path

import pytest

from benchmarks import child, history, ingest, traces
from benchmarks.traces import STEP_OPERATIONS
from warehouse.connection import connect
from warehouse.records import BadInput, StepcastError

RUN_ROWS = 2 * STEP_OPERATIONS


def ask(home: Path, sql: str) -> list[tuple]:
    with connect(home / "warehouse.duckdb", read_only=True) as connection:
        return connection.execute(sql).fetchall()


@pytest.mark.exhaustive
def test_every_figure_is_measured() -> None:
    lines: list[str] = []
    figures = ingest.measure(20 * STEP_OPERATIONS, lines.append).to_dict()
    assert {"runmetadata_ops_per_s", "load_rows_per_s", "query_100m_s", "peak_mb"} < set(figures)
    assert all(value > 0 for value in figures.values())
    assert figures["runmetadata_operations"] == figures["load_rows"] == RUN_ROWS
    assert figures["query_rows"] == 20 * STEP_OPERATIONS
    parts = ("runmetadata_peak_mb", "load_peak_mb", "query_peak_mb")
    assert figures["peak_mb"] == max(figures[part] for part in parts)
    assert len(lines) == 3


def test_the_filled_history_agrees_with_itself(tmp_path: Path) -> None:
    history.land_runs(str(tmp_path), RUN_ROWS, RUN_ROWS)
    history.load(str(tmp_path))
    history.fill(str(tmp_path), 5 * RUN_ROWS, RUN_ROWS)
    assert ask(tmp_path, "SELECT count(*), count(DISTINCT run_id) FROM raw.timing") == [
        (5 * RUN_ROWS, 5)
    ]
    different = ask(
        tmp_path,
        """
        SELECT run_id, operation
        FROM raw.operation_time
        FULL JOIN (
            SELECT run_id, operation, count(*) AS steps, avg(duration_us) AS us
            FROM raw.timing GROUP BY ALL
        ) AS timed USING (run_id, operation)
        JOIN raw.operation USING (run_id, operation)
        WHERE operation_time.steps <> timed.steps OR abs(mean_us - us) > 1e-6 OR us IS NULL
        """,
    )
    assert different == []


@pytest.mark.exhaustive
def test_made_up_traces_are_read_by_both(tmp_path: Path) -> None:
    import polars as pl

    traces.write(str(tmp_path), 2)
    traces.convert(str(tmp_path))
    traces.convert_plainly(str(tmp_path))
    landed = pl.read_parquet(next((tmp_path / "landing").glob("*/timing.parquet")))
    plain = pl.read_parquet(tmp_path / "plain.parquet")
    assert landed.height == plain.height == 2 * STEP_OPERATIONS
    assert landed["duration_us"].to_list() == plain["duration_us"].to_list()


def test_too_few_rows_and_a_full_disk_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="--rows 10 is too few to time; take 20000 or more"):
        ingest.measure(10)
    with pytest.raises(BadInput, match=r"rows need [\d.]+ GB in .*; take fewer with --rows"):
        ingest.measure(10**15)


def test_a_part_that_fails_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StepcastError, match=r"benchmark part load failed: .*/file"):
        child.run(history.load, str(tmp_path / "file"))


def allocate(megabytes: int) -> float:
    """Hold memory for a moment; called in a child."""
    return float(len(b"x" * megabytes * 1_000_000) > 0)


def test_memory_is_the_childs_own() -> None:
    ballast = bytearray(400_000_000)
    small, large = (child.run(allocate, megabytes).peak_mb for megabytes in (1, 200))
    assert len(ballast) > 0
    assert small < 300
    assert 150 < large - small < 250
