"""A small study on rented instances: with an account (`pytest -m aws`), and on the stand-in.

The real one takes the fleet file that STEPCAST_AWS_FLEET names, and the first of its node types.
"""

import os
from pathlib import Path

import pytest

from profilers.clusters.fleet import VARIABLE, read_fleet
from profilers.renting.book import Book
from profilers.steady import hostlock
from tests.pipelines.ran import stepcast
from tests.profilers.renting import served as serving
from tests.profilers.renting.cloud import Cloud
from tests.profilers.renting.managed import managed
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse

cloud, served = serving.cloud, serving.served
CAP_USD = 5.0
STUDY = """
name: on_aws
backend: ec2
probes: {{links: {{flows: [1], seconds: 1, trials: 1}}}}
train: [{{dnn: small_cnn, image_size: 24, batch_size: 8, worker: {0}, server: {0},
          link_mbps: 750, workers: 1}}]
"""


def check_rented(home: Path, folder: Path) -> None:
    """Measure links between instances; check that they are paid for, ended, and known as such."""
    node_type = next(iter(read_fleet().node_types))
    study = folder / "on_aws.yaml"
    study.write_text(STUDY.format(node_type))
    for words in (
        ["prices", "collect", "--type", node_type],
        ["run", str(study), "--max-usd", f"{CAP_USD:g}", "--yes"],
        ["reap"],
    ):
        answer = stepcast(*words)
        assert answer.code == 0, answer.err
    runs = [run for run in landed_runs(home / "landing") if run.backend == "ec2"]
    assert [(run.probe, run.status) for run in runs] == [("links", "ok")]
    (bill,) = Warehouse(home).query("bill").to_dicts()
    assert 0 < bill["spent_usd"] <= CAP_USD
    assert (bill["living"], bill["open_usd"]) == (0, 0)
    entries = Book().read()
    assert entries.ended and not entries.living and not entries.unanswered


@pytest.mark.aws
def test_a_study_is_measured_on_instances(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, os.environ["STEPCAST_AWS_FLEET"])
    check_rented(home, tmp_path)


@pytest.mark.cluster
def test_the_same_study_is_measured_on_the_stand_in(
    cloud: Cloud, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what commands set
    monkeypatch.setattr(hostlock, "NAME", f"\0stepcast-test-{tmp_path}")
    monkeypatch.setattr("profilers.renting.ssm._EVERY_S", 0.1)
    (tmp_path / "cloud").mkdir()
    with managed(tmp_path / "cloud", cloud) as (found, file):
        monkeypatch.setenv(VARIABLE, str(file))
        check_rented(home, tmp_path)
        assert found.alive == {}
    assert not cloud.alive()
