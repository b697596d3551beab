"""The benchmark of an answer: stages count once, and a home is only read."""

from pathlib import Path

import pytest

from benchmarks import predict
from warehouse.home import HISTORY
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse


def test_a_stage_within_another_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0

    def work(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    monkeypatch.setattr("benchmarks.predict.time.perf_counter", lambda: now_s)
    watch = predict.Stopwatch()
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
        predict.BENCHMARK.run({}, print)


def test_a_home_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was measured in it: no system answers, which is told, and the home stays as it is."""
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    Warehouse(tmp_path).load()
    before = {path: path.read_bytes() for path in tmp_path.glob("*.duckdb")}
    assert tmp_path / HISTORY in before
    with pytest.raises(BadInput, match="no system forecasts the model"):
        predict.BENCHMARK.run({}, print)
    assert {path: path.read_bytes() for path in tmp_path.glob("*.duckdb")} == before
