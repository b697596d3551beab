"""The study as assets see it throughout one run of Dagster."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets import resources
from assets.resources import StudyResource, WarehouseResource
from profilers.clusters import host_id
from studies.parts import parts
from studies.rounds import Round
from studies.study import read_study
from tests.synthetic import STUDY, SYNCHRONOUS, landed, write_study


def test_a_run_keeps_its_round_when_a_probe_completes_it(
    landed_round: Callable[[str], Round], home: Path, tmp_path: Path
) -> None:
    def opened() -> StudyResource:
        warehouse = WarehouseResource(home=str(home))
        return StudyResource(path=str(file), backend="loopback", warehouse=warehouse)

    file = write_study(tmp_path)
    study = opened()
    assert study.open_round().missing
    landed_round(STUDY)
    after = study.open_round()
    assert (after.repeat, after.missing) == (1, ())
    assert opened().open_round().repeat == 2


def test_a_later_round_that_needs_no_profiles_is_the_latest_of_the_run_that_opened_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_study(tmp_path, SYNCHRONOUS.replace("jobs:", "again: {fraction: 0.5}\njobs:"))
    here: dict[str, Any] = {"backend": "loopback", "host_id": host_id("loopback")}
    runs = [landed(part, **here) for part in parts(read_study(file), "loopback")]
    monkeypatch.setattr(resources, "landed_runs", lambda folder: runs)
    study = StudyResource(
        path=str(file), backend="loopback", warehouse=WarehouseResource(home=str(home))
    )
    assert study.latest_round().repeat == 1
    opened = study.open_round()
    assert opened.missing
    assert not [part.name for part in opened.missing if part.profiles]
    assert study.latest_round() == opened
