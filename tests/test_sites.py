"""docs/sites.md, followed step by step: two sites measure, one warehouse remembers."""

import re
import shlex
from pathlib import Path

import boto3
import pytest
from dagster import (
    DagsterInstance,
    Definitions,
    RunRequest,
    SkipReason,
    build_sensor_context,
)

from pipelines import lineage
from pipelines.execution import resources
from profilers.steady import hostlock
from tests.pipelines.ran import Answer, stepcast
from tests.synthetic import STUDY, PaperProbes
from tests.warehouse.conftest import Maker
from warehouse.home import CHECKOUT
from warehouse.landing import run_folders
from warehouse.warehouse import read_only

PAGE = (CHECKOUT / "docs" / "sites.md").read_text()
AT_EACH_SITE, AT_THE_WAREHOUSE, BY_ITSELF = (
    text.strip().splitlines() for text in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
)
SENSOR = "new_runs_of_other_sites"


class Places:
    """Homes of several places, as if each were a machine of its own."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = patch

    def at(self, name: str) -> Path:
        """Go to a place; return its home."""
        home = self._folder / name
        home.mkdir(exist_ok=True)
        self._patch.setenv("STEPCAST_HOME", str(home))
        self._patch.delenv("STEPCAST_PREFIX", raising=False)
        return home

    def follow(self, lines: list[str]) -> list[Answer]:
        """Do what lines of the page say; each command has to succeed."""
        answers = []
        for words in map(shlex.split, lines):
            if words[0] == "export":
                self._patch.setenv(*words[1].split("=", 1))
                continue
            assert words[0] == "stepcast"
            answers.append(stepcast(*words[1:]))
            assert answers[-1].code == 0, answers[-1].err
        return answers


@pytest.fixture
def places(tmp_path: Path, s3: str, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Return places with the bucket of the page, a study on paper and probes that run nothing."""
    boto3.client("s3").create_bucket(Bucket="lab-runs")
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")  # put back what commands set
    (tmp_path / "studies").mkdir()
    (tmp_path / "studies" / "demo.yaml").write_text(STUDY)
    monkeypatch.chdir(tmp_path)
    PaperProbes().install(monkeypatch)
    monkeypatch.setattr(hostlock, "holder", lambda: "")
    return Places(tmp_path, monkeypatch)


def landed(home: Path) -> set[str]:
    return {folder.name for folder in run_folders(home / "landing")}


def loaded(home: Path) -> list[str]:
    return read_only(home, "SELECT run_id FROM raw.run ORDER BY run_id")["run_id"].to_list()


@pytest.mark.exhaustive
def test_the_page(places: Places) -> None:
    north = places.at("north")
    *_, pushed = places.follow(AT_EACH_SITE)
    count = len(landed(north))
    assert count > 3
    # The run itself has pushed as its probes finished.
    assert pushed.out == (f"pushed 0 runs to s3://lab-runs/profiles, {count} were there already\n")
    warehouse = places.at("warehouse")
    came, checked, queried = places.follow(AT_THE_WAREHOUSE)
    assert came.out.startswith(f"copied {count} runs from s3://lab-runs/profiles\n")
    assert checked.out.startswith("sound: ")
    assert re.search(rf"paper.*{count}", queried.out)
    assert loaded(warehouse) == sorted(landed(north))

    south = places.at("south")
    make = Maker(south)
    make.profile("measured-there", make.scenario())
    configured, _, push = AT_EACH_SITE
    (pushed,) = places.follow([configured, push])
    assert pushed.out.startswith("pushed 1 runs")
    places.at("warehouse")
    *exports, ui = BY_ITSELF
    assert ui == "stepcast ui"
    places.follow(exports)
    switch_on()
    assert loaded(warehouse) == sorted(landed(north) | landed(south))
    came, checked, _ = places.follow(AT_THE_WAREHOUSE)
    assert came.out.startswith("copied 0 runs")
    assert checked.out.startswith("sound: ")


def switch_on() -> None:
    """Do what Dagster's daemon does once the sensor is on: ask it, run what it wants, ask again."""
    assert SENSOR in PAGE
    merged = Definitions.merge(lineage.receiving_definitions(), Definitions(resources=resources()))
    sensor = merged.resolve_sensor_def(SENSOR)
    with DagsterInstance.ephemeral() as instance:
        request = sensor(build_sensor_context(instance))
        assert isinstance(request, RunRequest)
        job = merged.resolve_job_def(lineage.JOB)
        assert job.execute_in_process(instance=instance, tags=dict(request.tags)).success
        assert isinstance(sensor(build_sensor_context(instance)), SkipReason)
