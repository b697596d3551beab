"""Runs that a machine without Dagster measures land here as any others."""

from pathlib import Path

import pytest

from scripts import elsewhere
from warehouse.landing import landed_runs, read_tables

NETWORK = """
dnn: small_cnn, framework: pytorch, strategy: all_reduce, image_size: 24, worker: emu.avx2.1c,
link_mbps: 500, workers: [1], batch_size:
"""
STUDY = f"""
name: elsewhere
backend: loopback
systems: [log_linear]
probes:
  torch_throughput: {{iterations: 20, interval: 0.5, most_s: 1}}
  inventory: {{turns: 1, seconds: 0.01}}
train: [{{{NETWORK} 2}}]
test: [{{{NETWORK} 4}}]
"""


@pytest.mark.exhaustive
@pytest.mark.cluster
def test_what_was_asked_is_measured_and_lands(tmp_path: Path) -> None:
    study = tmp_path / "elsewhere.yaml"
    study.write_text(STUDY)
    request = tmp_path / "asked.json"
    request.write_text(elsewhere.ask(study, "profile", "loopback"))
    elsewhere.main(["measure", str(request), str(tmp_path / "measured"), "--most-s", "60"])
    assert elsewhere.land_all(tmp_path / "measured", tmp_path / "landing") == 2
    assert elsewhere.land_all(tmp_path / "measured", tmp_path / "landing") == 0
    runs = {run.probe: run for run in landed_runs(tmp_path / "landing")}
    assert runs.keys() == {"torch_throughput", "inventory"}
    assert {(run.study, run.purpose, run.status) for run in runs.values()} == {
        ("elsewhere", "profile", "ok")
    }
    tables = read_tables(tmp_path / "landing" / runs["torch_throughput"].run_id)
    assert "step_time_s" in tables["sample"]["metric"].to_pylist()


def test_it_stops_before_it_takes_longer_than_it_may(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = tmp_path / "elsewhere.yaml"
    study.write_text(STUDY)
    request = tmp_path / "asked.json"
    elsewhere.main(["ask", str(study), "profile", "loopback"])
    printed = capsys.readouterr()
    assert printed.err.startswith("2 runs, about ")
    request.write_text(printed.out)
    elsewhere.main(["measure", str(request), str(tmp_path / "measured"), "--most-s", "-1"])
    assert "no time for 2 of 2 starts" in capsys.readouterr().err
    assert not (tmp_path / "measured").exists()
