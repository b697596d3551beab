import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import ingest
from pipelines.cli import predict_bench
from warehouse.home import HISTORY
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse


def test_the_command_prints_a_table_or_json(
    stepcast: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []

    def measure(count: int, progress: Callable[[str], None]) -> ingest.IngestReport:
        rows.append(count)
        progress("working")
        return ingest.IngestReport(
            runmetadata_ops_per_s=200_000.0,
            runmetadata_vs_tensorflow=1.5,
            runmetadata_operations=1000,
            runmetadata_peak_mb=100.0,
            load_rows_per_s=2e6,
            load_vs_pyarrow=1.25,
            load_rows=4000,
            load_peak_mb=300.0,
            query_100m_s=0.1,
            query_vs_all_timings=30.0,
            query_rows=100_000,
            query_peak_mb=200.0,
            peak_mb=300.0,
        )

    monkeypatch.setattr(ingest, "measure", measure)
    table = stepcast("bench", "ingest")
    assert table.code == 0
    for text in ("200,000 operations/s", "1.50 x TensorFlow's classes", "2,000,000 rows/s"):
        assert text in table.out
    assert table.err == "working\n"
    report = json.loads(stepcast("bench", "ingest", "--rows", "50000", "--json").out)
    assert report["query_100m_s"] == 0.1
    assert rows == [100_000_000, 50_000]


def test_a_stage_within_another_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0

    def work(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr("pipelines.cli.predict_bench.time.perf_counter", lambda: now_s)
    watch = predict_bench.Stopwatch()
    read = watch.timing("views_s", work)
    with watch.stage("forecast_s"):
        read(3.0)
        work(2.0)
        read(4.0)
    assert watch.taken_s == {"views_s": 7.0, "forecast_s": 2.0}


def test_a_home_without_a_history_is_told_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="run `stepcast reproduce data/reference"):
        predict_bench.measure()


def test_a_home_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was measured in it: no system answers, which is told, and the home stays as it is."""
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    Warehouse(tmp_path).load()
    before = {path: path.read_bytes() for path in tmp_path.glob("*.duckdb")}
    assert tmp_path / HISTORY in before
    with pytest.raises(BadInput, match="no system forecasts the model"):
        predict_bench.measure()
    assert {path: path.read_bytes() for path in tmp_path.glob("*.duckdb")} == before
