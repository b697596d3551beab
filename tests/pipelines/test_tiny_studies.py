"""A tiny study for real, of Srift and Ceer on one scenario."""

from pathlib import Path

import pytest

from tests.pipelines.ran import stepcast
from warehouse.landing import landed_runs
from warehouse.sql import read_only
from warehouse.warehouse import Warehouse

pytestmark = pytest.mark.cluster

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
     batch_size: 2, worker: quick, link_mbps: 1000, workers: [2]}
test:
  - {dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 16,
     batch_size: 8, worker: quick, link_mbps: 1000, workers: [2]}
"""


QUICK = "quick: {bandwidth_mbps: 1000, cpu_share: 0.8, inter_op_threads: 1, isa: AVX2}"
"""The smaller its share of a core is, the longer programs start."""


def test_srift_and_ceer_are_judged_by_one_measurement(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Srift sees passes of the network that is tested, Ceer operations of those that train.

    Both see steps of those that train.
    """
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what the command sets
    (home / "node-types.yaml").write_text(QUICK)
    study = tmp_path / "tiny.yaml"
    study.write_text(PYTORCH)
    done = stepcast("run", str(study))
    assert done.code == 0, done.out + done.err
    assert sorted((run.probe, run.purpose) for run in landed_runs(home / "landing")) == [
        ("allreduce", "profile"),
        ("links", "profile"),
        ("torch_compute", "profile"),
        ("torch_operations", "measurement"),
        ("torch_operations", "profile"),
        ("torch_throughput", "measurement"),
        ("torch_throughput", "profile"),
    ]
    order = read_only(
        home,
        "SELECT (SELECT max(made_at) FROM pred.ledger) < (SELECT min(started_at) FROM raw.run "
        "WHERE purpose = 'measurement') AS predicted_first",
    )
    assert order["predicted_first"].to_list() == [True]
    ceer = read_only(
        home, "SELECT predicted, measured FROM report.accuracy WHERE system = 'ceer_pytorch'"
    ).row(0, named=True)
    assert 0 < ceer["predicted"] < 10 * ceer["measured"]
    page = stepcast("report", str(tmp_path))
    assert page.out.splitlines()[-1] == str(home / "papers.html"), page.err
    assert "study tiny, round 1" in (home / "papers.html").read_text()
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
