"""Tiny studies of Ceer for real: operations and steps of one network, forecasts of another."""

import subprocess
import sys
from pathlib import Path

import pytest

from warehouse.landing import landed_runs
from warehouse.warehouse import read_only

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
systems: [ceer_pytorch, ceer_pytorch_paper]
probes:
  torch_operations: {timed_steps: 6, untimed_steps: 4, test: true}
  torch_throughput: {iterations: 20}
train:
  - {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 16,
     batch_size: 2, worker: emu.avx2.s40, link_mbps: 1000, workers: [2]}
test:
  - {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 16,
     batch_size: 8, worker: emu.avx2.s40, link_mbps: 1000, workers: [2]}
"""
PROBES = {
    "ceer": ("tf_operations", "tf_sync"),
    "ceer_pytorch": ("torch_operations", "torch_throughput"),
}


@pytest.mark.parametrize(("text", "system"), [(TENSORFLOW, "ceer"), (PYTORCH, "ceer_pytorch")])
def test_steps_are_forecast_from_operations_and_judged(
    home: Path, tmp_path: Path, text: str, system: str
) -> None:
    study = tmp_path / "tiny.yaml"
    study.write_text(text)
    command = [sys.executable, "-m", "pipelines.cli.main", "run", str(study)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    operations, steps = PROBES[system]
    assert sorted((run.probe, run.purpose) for run in landed_runs(home / "landing")) == [
        (operations, "measurement"),
        (operations, "profile"),
        (steps, "measurement"),
        (steps, "profile"),
    ]
    order = read_only(
        home,
        "SELECT (SELECT max(made_at) FROM pred.ledger) < (SELECT min(started_at) FROM raw.run "
        "WHERE purpose = 'measurement') AS predicted_first",
    )
    assert order["predicted_first"].to_list() == [True]
    rows = read_only(
        home, "SELECT system, split, predicted, measured FROM report.accuracy ORDER BY system"
    ).rows()
    assert [row[:2] for row in rows] == [(system, rows[0][1]), (f"{system}_paper", rows[0][1])]
    assert 0 < rows[0][2] < 10 * rows[0][3]
    assert "<h2>Operations</h2>" in (home / "report.html").read_text()
