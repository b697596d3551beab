import json
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import ceer, ingest, optimizer, predictddl, simulator
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
    found = json.loads(stepcast("bench", "ingest", "--rows", "50000", "--json").out)
    assert found["query_100m_s"] == 0.1
    assert rows == [100_000_000, 50_000]


def test_the_simulator_s_figures(stepcast: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(progress: Callable[[str], None]) -> simulator.SimulatorReport:
        progress("working")
        return simulator.SimulatorReport(
            events_per_s=9e6,
            simpy_events_per_s=5e4,
            ratio_to_simpy=180.0,
            inception_w2_10_s=12.5,
            peak_mb=640.0,
        )

    monkeypatch.setattr(simulator, "measure", measure)
    table = stepcast("bench", "simulator")
    assert table.code == 0
    assert table.err == "working\n"
    for text in ("9,000,000 events/s", "180 x", "12.5 s", "640 MB"):
        assert text in table.out
    found = json.loads(stepcast("bench", "simulator", "--json").out)
    assert found == measure(lambda _: None).to_dict()
    assert list(found) == [
        "events_per_s",
        "simpy_events_per_s",
        "ratio_to_simpy",
        "inception_w2_10_s",
        "peak_mb",
    ]


def test_the_optimiser_s_figures(stepcast: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(progress: Callable[[str], None]) -> optimizer.OptimizerReport:
        progress("working")
        return optimizer.OptimizerReport(
            case1_s=0.01,
            case2_s=0.02,
            case3_s=0.05,
            catalogue_s=1.5,
            catalogue_configurations=1_234_567,
            choices=("16 a@64", "8 a@128", "none", "2 b@512"),
        )

    monkeypatch.setattr(optimizer, "measure", measure)
    table = stepcast("bench", "optimizer")
    assert table.code == 0
    assert table.err == "working\n"
    for text in ("case 1", "0.050 s", "16 a@64", "none", "1,234,567 configurations", "1.500 s"):
        assert text in table.out
    found = json.loads(stepcast("bench", "optimizer", "--json").out)
    assert found == measure(lambda _: None).to_dict()
    assert list(found) == [
        "case1_s",
        "case2_s",
        "case3_s",
        "catalogue_s",
        "catalogue_configurations",
    ]


def test_ceer_s_figures(stepcast: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def measure(count: int, progress: Callable[[str], None]) -> ceer.CeerReport:
        rows.append(count)
        progress("working")
        return ceer.CeerReport(
            fit_rows=count,
            fit_types=24,
            fit_s=8.25,
            fit_peak_mb=700.0,
            predict_node_types=4,
            predict_ms=12.5,
        )

    monkeypatch.setattr(ceer, "measure", measure)
    table = stepcast("bench", "ceer")
    assert table.code == 0
    assert table.err == "working\n"
    for text in (
        "10,000,000 of 24 types",
        "8.2 s",
        "700 MB",
        "a network on 4 node types",
        "12.5 ms",
    ):
        assert text in table.out
    found = json.loads(stepcast("bench", "ceer", "--rows", "500000", "--json").out)
    assert rows == [10_000_000, 500_000]
    assert {"fit_rows", "fit_s", "fit_peak_mb", "predict_ms"} <= set(found)


def test_predictddl_s_figures(stepcast: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(progress: Callable[[str], None]) -> predictddl.PredictDDLReport:
        progress("working")
        return predictddl.PredictDDLReport(
            embed_ms=17.5,
            trace_ms=130.0,
            batch100_s=0.25,
            ratio_to_ernest=1234.0,
            ratio_without_probes=0.0005,
            ratio_with_training_runs=0.29,
        )

    monkeypatch.setattr(predictddl, "measure", measure)
    table = stepcast("bench", "predictddl")
    assert (table.code, table.err) == (0, "working\n")
    for text in ("17.5 ms", "130 ms", "0.25 s", "1,234 x", "0.0005 x", "0.29 x"):
        assert text in table.out
    found = json.loads(stepcast("bench", "predictddl", "--json").out)
    assert found["ratio_with_training_runs"] == 0.29
    assert "Example: stepcast bench predictddl" in stepcast("bench", "predictddl", "--help").out


def test_figures_of_an_answer(stepcast: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    def measure(progress: Callable[[str], None]) -> predict_bench.PredictReport:
        progress("working")
        return predict_bench.PredictReport(
            imports_s=1.25,
            trace_s=3.0,
            open_s=0.06,
            rows_s=0.31,
            views_s=0.72,
            fits_s=0.21,
            forecast_s=0.44,
            command_s=4.5,
            ratio_to_trace=1.5,
        )

    monkeypatch.setattr(predict_bench, "measure", measure)
    table = stepcast("bench", "predict")
    assert (table.code, table.err) == (0, "working\n")
    for text in ("1.25 s", "3.00 s", "0.06 s", "0.72 s", "4.50 s", "1.50 x"):
        assert text in table.out
    assert json.loads(stepcast("bench", "predict", "--json").out)["views_s"] == 0.72
    assert "Example: stepcast bench predict" in stepcast("bench", "predict", "--help").out


def test_help_has_an_example(stepcast: Callable) -> None:
    for arguments in (["bench"], ["bench", "ingest"]):
        assert "Example: stepcast bench ingest" in stepcast(*arguments, "--help").out
    assert "Example: stepcast bench ceer" in stepcast("bench", "ceer", "--help").out
    assert "Example: stepcast bench simulator" in stepcast("bench", "simulator", "--help").out
    assert "Example: stepcast bench optimizer" in stepcast("bench", "optimizer", "--help").out


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
