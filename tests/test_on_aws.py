"""A small study on rented instances: with an account (`pytest -m aws`), and on the stand-in.

The real one takes the fleet file that STEPCAST_AWS_FLEET names, and the first of its node types.
"""

import os
from pathlib import Path

import pytest
import yaml

from profilers.clusters.fleet import VARIABLE, read_fleet
from profilers.renting import renter
from profilers.renting.book import Book
from profilers.steady import hostlock
from tests.aws import instance_type
from tests.exhaustive import exhaustive
from tests.pipelines.ran import stepcast
from tests.profilers.renting import served as serving
from tests.profilers.renting.cloud import Cloud
from tests.profilers.renting.instances import instances
from warehouse.home import CHECKOUT
from warehouse.landing import landed_runs
from warehouse.warehouse import Warehouse

cloud, served = serving.cloud, serving.served
CAP_USD = 5.0
GPUS = ("ec2_gpu", "ec2_two_gpus")
"""Studies of one rented GPU, and of two nodes."""
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


@pytest.mark.aws
@pytest.mark.parametrize("name", GPUS)
def test_studies_of_gpus_are_measured_on_instances(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """About a dollar each; the fleet file names g4dn.xlarge, and an image of deploy/image.yaml."""
    monkeypatch.setenv(VARIABLE, os.environ["STEPCAST_AWS_FLEET"])
    for words in (
        ["load", str(CHECKOUT / "data/public")],
        ["prices", "collect", "--type", "g4dn.xlarge"],
        ["run", str(CHECKOUT / f"studies/{name}.yaml"), "--max-usd", f"{CAP_USD:g}", "--yes"],
    ):
        answer = stepcast(*words)
        assert answer.code == 0, answer.err
    assert (Warehouse(home).query("accuracy", study=name)["measured"] > 0).all()
    (bill,) = Warehouse(home).query("bill").to_dicts()
    assert (bill["living"], bill["open_usd"]) == (0, 0)


@pytest.fixture
def at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait neither for others that measure nor for instances that start."""
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what commands set
    monkeypatch.setattr(hostlock, "NAME", f"\0stepcast-test-{tmp_path}")
    monkeypatch.setattr(renter, "FIRST_PAUSE_S", 0.05)


@pytest.mark.sshd
@pytest.mark.cluster
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("name", [*exhaustive(GPUS[0]), GPUS[1]])
def test_studies_of_gpus_are_refused_where_an_image_has_no_driver(
    name: str, cloud: Cloud, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planned with minutes and dollars, rented, found to have no GPU, ended: on the stand-in."""
    cloud.aws.types["g4dn.xlarge"] = instance_type(4, 16, "Up to 25 Gigabit", 5.0, ("T4", 1, 16))
    cloud.aws.on_demand["us-east-1", "g4dn.xlarge"] = 0.526
    study = str(CHECKOUT / f"studies/{name}.yaml")
    with instances(tmp_path, cloud) as (rented, file):
        fleet = yaml.safe_load(file.read_text())
        fleet["node_types"] = {"g4dn.xlarge": {"threads": 4}}
        file.write_text(yaml.safe_dump(fleet))
        monkeypatch.setenv(VARIABLE, str(file))
        unpriced = stepcast("plan", study)
        assert "nobody knows what g4dn.xlarge costs on demand" in unpriced.err
        assert stepcast("prices", "collect", "--type", "g4dn.xlarge").code == 0
        plan = stepcast("plan", study)
        assert plan.code == 0
        assert "renting costs about $" in plan.err
        assert (rented.alive, "RunInstances" in cloud.asked) == ({}, False)
        run = stepcast("run", study, "--max-usd", "3", "--yes")
        assert run.code == 2
        assert "needs 1 GPU T4, but it has none; it is ended. Its image has no driver" in run.err
        assert rented.alive == {}
    assert not cloud.alive()


@pytest.mark.sshd
@pytest.mark.cluster
@pytest.mark.usefixtures("at_once")
def test_the_same_study_is_measured_on_the_stand_in(
    cloud: Cloud, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cloud").mkdir()
    with instances(tmp_path / "cloud", cloud) as (rented, file):
        monkeypatch.setenv(VARIABLE, str(file))
        check_rented(home, tmp_path)
        assert rented.alive == {}
    assert not cloud.alive()
