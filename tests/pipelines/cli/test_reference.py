"""Everything anew from landed runs: the same predictions, judged by the same measurements."""

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.pipelines.ran import Ran, Stepcast
from warehouse.landing import landed_runs
from warehouse.seal import FOLDER
from warehouse.sets import copy_kept_runs, pack
from warehouse.warehouse import Warehouse


@pytest.fixture
def studies(study_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("pipelines.reproduction.STUDIES", study_file.parent)
    return study_file.parent


def test_forecasts_are_sealed_before_and_judged_after_they_are_measured(
    stepcast: Stepcast,
    finished: Ran,
    studies: Path,
    short_study: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    landing, reference = finished.home / "landing", tmp_path / "reference"
    assert "are measured in this home" in stepcast("seal", str(short_study), str(tmp_path)).refusal
    profiles = [run.run_id for run in landed_runs(landing) if run.purpose == "profile"]
    copy_kept_runs(landing, reference, profiles)

    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "before"))
    assert stepcast("reproduce", str(reference)).code == 0
    # The runs of this study are from before the forecasts of this home.
    early = datetime(2020, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("profilers.clock.now", lambda: early)
    sealed = stepcast("seal", str(short_study), str(reference / FOLDER))
    assert sealed.printed.endswith(f"are in {reference / FOLDER / 'paper.1.parquet'}\n")

    copy_kept_runs(landing, reference, [run.run_id for run in landed_runs(landing)])
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "after"))
    again = stepcast("reproduce", str(reference))
    assert "published before anything of their study was measured" in again.printed
    judged = Warehouse(tmp_path / "after").query("sealed", study="paper")
    assert judged["n"].sum() > 0

    kept = tmp_path / "kept"
    pack(landing, kept, [run.run_id for run in landed_runs(landing)], artefacts=False)
    shutil.copytree(reference / FOLDER, kept / FOLDER)
    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "loaded"))
    assert "published forecasts" in stepcast("load", str(kept)).out
    assert "published forecasts" not in stepcast("load", str(kept)).out
    assert Warehouse(tmp_path / "loaded").query("sealed", study="paper").equals(judged)


def test_there_must_be_something_to_reproduce(
    stepcast: Stepcast, home: Path, studies: Path, tmp_path: Path
) -> None:
    assert "holds no complete profile of a study" in stepcast("reproduce", str(tmp_path)).refusal
    answer = stepcast("reproduce", str(tmp_path), "--study", "papr")
    assert (answer.code, "no study 'papr' (there are paper)" in answer.err) == (2, True)
    answer = stepcast("export", "nothing", str(tmp_path / "reference"))
    assert (answer.code, "no run of study 'nothing'" in answer.err) == (2, True)
