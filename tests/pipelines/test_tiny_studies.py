"""Tiny studies for real: of Ceer alone, and of Srift and Ceer on one scenario."""

from pathlib import Path

import pytest

from tests.pipelines.ran import stepcast
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse, read_only

pytestmark = pytest.mark.cluster

TENSORFLOW = """
name: tiny
backend: emulated
probes:
  tf_operations: {traced_steps: 6, untraced_steps: 4, test: true}
  tf_sync: {windows: 1, window_s: 2}
train:
  - {dnn: cuda_convnet, strategy: all_reduce, image_size: 24, batch_size: 2, worker: emu.avx2.s40,
     link_mbps: 1000, workers: [2]}
test:
  - {dnn: small_cnn, strategy: all_reduce, image_size: 16, batch_size: 4, worker: emu.avx2.s40,
     link_mbps: 1000, workers: [2]}
"""
PYTORCH = """
name: tiny
backend: emulated
systems: [srift, ideal_scaling, ceer_pytorch, ceer_pytorch_paper]
probes:
  links: {flows: [1], seconds: 1, trials: 1}
  allreduce: {sizes_bytes: [4, 1024, 65536, 1048576], world_sizes: [2], trials: 2}
  torch_compute: {batch_sizes: [2, 8], trials: 4, watched_trials: 1}
  torch_operations: {timed_steps: 6, untimed_steps: 4, test: true}
  torch_throughput: {iterations: 20}
train:
  - {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 16,
     batch_size: 2, worker: emu.avx2.s40, link_mbps: 1000, workers: [2]}
test:
  - {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 16,
     batch_size: 8, worker: emu.avx2.s40, link_mbps: 1000, workers: [2]}
"""


def run(folder: Path, text: str) -> None:
    """Run a study in this process: `test_demo_end_to_end.py` starts one of its own."""
    study = folder / "tiny.yaml"
    study.write_text(text)
    done = stepcast("run", str(study))
    assert done.code == 0, done.out + done.err


def predicted_first(home: Path) -> bool:
    """Tell whether all forecasts were in the ledger before anything that judges them began."""
    order = read_only(
        home,
        "SELECT (SELECT max(made_at) FROM pred.ledger) < (SELECT min(started_at) FROM raw.run "
        "WHERE purpose = 'measurement') AS predicted_first",
    )
    return order["predicted_first"].to_list() == [True]


def judged_by_operations(home: Path, study: Path, system: str) -> None:
    """Check the forecasts of a system that adds up operations, of it as published, their page."""
    assert predicted_first(home)
    rows = read_only(
        home,
        "SELECT system, split, predicted, measured FROM report.accuracy "
        f"WHERE system LIKE '{system}%' ORDER BY system",
    ).rows()
    assert [row[:2] for row in rows] == [(system, rows[0][1]), (f"{system}_paper", rows[0][1])]
    assert 0 < rows[0][2] < 10 * rows[0][3]
    folder = home / "studies"
    folder.mkdir()
    (folder / study.name).write_text(study.read_text())
    page = stepcast("report", str(folder))
    assert page.out.splitlines()[-1] == str(home / "papers.html"), page.err
    assert f"study {study.stem}, round 1" in (home / "papers.html").read_text()


@pytest.mark.exhaustive
def test_steps_are_forecast_from_operations_and_judged(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what the command sets
    run(tmp_path, TENSORFLOW)
    assert sorted((run.probe, run.purpose) for run in landed_runs(home / "landing")) == [
        ("tf_operations", "measurement"),
        ("tf_operations", "profile"),
        ("tf_sync", "measurement"),
        ("tf_sync", "profile"),
    ]
    judged_by_operations(home, tmp_path / "tiny.yaml", "ceer")


def test_srift_and_ceer_are_judged_by_one_measurement(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Srift sees passes of the network that is tested, Ceer operations of those that train.

    Both see steps of those that train.
    """
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what the command sets
    run(tmp_path, PYTORCH)
    assert sorted((run.probe, run.purpose) for run in landed_runs(home / "landing")) == [
        ("allreduce", "profile"),
        ("links", "profile"),
        ("torch_compute", "profile"),
        ("torch_operations", "measurement"),
        ("torch_operations", "profile"),
        ("torch_throughput", "measurement"),
        ("torch_throughput", "profile"),
    ]
    judged_by_operations(home, tmp_path / "tiny.yaml", "ceer_pytorch")
    judged = read_only(home, "SELECT system, scenario_id, measured FROM report.accuracy")
    assert sorted(judged["system"]) == [
        "ceer_pytorch",
        "ceer_pytorch_paper",
        "ideal_scaling",
        "srift",
    ]
    assert judged.select("scenario_id", "measured").n_unique() == 1
    saw = Warehouse(home).query("fit_inputs")
    assert {
        system: set(saw.filter(system=system)["probe"])
        for system in ("ceer_pytorch", "ideal_scaling", "srift")
    } == {
        "ceer_pytorch": {"torch_operations", "torch_throughput"},
        "ideal_scaling": {"torch_compute"},
        "srift": {"links", "allreduce", "torch_compute", "torch_throughput"},
    }
