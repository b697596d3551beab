"""The benchmark of an answer about a user's own model: its stages, and the home that it needs."""

import time
from pathlib import Path

import pytest

from benchmarks import predict
from warehouse.home import HISTORY
from warehouse.records import BadInput
from warehouse.warehouse import Warehouse


def test_a_stage_within_another_counts_once() -> None:
    watch = predict.Stopwatch()
    read = watch.timing("views_s", lambda: time.sleep(0.05))
    started_s = time.perf_counter()
    with watch.stage("forecast_s"):
        read()
        read()
        time.sleep(0.02)
    took_s = time.perf_counter() - started_s
    assert list(watch.taken_s) == ["views_s", "forecast_s"]
    assert watch.taken_s["views_s"] >= 0.1
    assert 0.02 <= watch.taken_s["forecast_s"] <= took_s - 0.1
    assert sum(watch.taken_s.values()) == pytest.approx(took_s, abs=0.005)


def test_a_home_without_a_history_is_told_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    with pytest.raises(BadInput, match="run `stepcast reproduce data/reference"):
        predict.measure()


def test_a_home_is_only_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was measured in it: no system answers, which is told, and the home stays as it is."""
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path))
    Warehouse(tmp_path).load()
    before = {path: path.read_bytes() for path in tmp_path.glob("*.duckdb")}
    assert tmp_path / HISTORY in before
    with pytest.raises(BadInput, match="no system forecasts the model"):
        predict.measure()
    assert {path: path.read_bytes() for path in tmp_path.glob("*.duckdb")} == before
