"""Everything anew from landed runs: the same predictions, judged by the same measurements."""

import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from tests.pipelines.ran import Ran, Stepcast
from tests.synthetic import FORECASTERS, PaperProbes
from warehouse.landing import landed_runs
from warehouse.seal import FOLDER
from warehouse.sets import copy_kept_runs, is_sets, kept_runs, pack
from warehouse.warehouse import Warehouse

COMPARED = ["system", "label", "predicted", "low", "high", "measured", "error_percent", "split"]


@pytest.fixture
def studies(study_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("pipelines.reproduction.STUDIES", study_file.parent)
    return study_file.parent


@pytest.mark.exhaustive
def test_a_rebuilt_warehouse_judges_as_the_first_one_did(
    stepcast: Stepcast,
    finished: Ran,
    studies: Path,
    study_file: Path,
    probes: PaperProbes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Warehouse(finished.home).query("judged")
    reference = tmp_path / "reference"
    kept = stepcast("export", "paper", str(reference))
    assert kept.out.startswith("packed 7 of 7 runs")
    assert is_sets(reference)
    assert kept_runs(reference) == landed_runs(finished.home / "landing")

    fresh = tmp_path / "fresh"
    monkeypatch.setenv("STEPCAST_HOME", str(fresh))
    answer = stepcast("reproduce", str(reference))
    again = Warehouse(fresh).query("judged")
    assert again.height == first.height > 0
    assert _sorted(again).equals(_sorted(first))
    board = json.loads(stepcast("accuracy", "--json").out)
    assert {row["system"] for row in board} == {system.name for system in FORECASTERS}
    assert "All systems of a study on what all of them forecast" in answer.printed
    common = json.loads(stepcast("query", "board", "--format", "json").out)
    assert {row["system"] for row in common} == {row["system"] for row in board}
    assert len({row["n"] for row in common}) == 1, "all are compared on the same scenarios"
    assert all(row["covered"] >= row["n"] for row in common)

    # Whoever did not measure it reads the same report.
    monkeypatch.setattr("pipelines.cli.rounds.host_id", lambda backend: "elsewhere")
    shown = stepcast("report", str(study_file))
    assert shown.out == f"{fresh / 'report.html'}\n"
    assert "nothing of study paper has run on this host; shown is host" in shown.err

    named = tmp_path / "named"
    monkeypatch.setenv("STEPCAST_HOME", str(named))
    monkeypatch.setattr("pipelines.reproduction.STUDIES", tmp_path / "nowhere")
    answer = stepcast("reproduce", str(reference), "--study", str(study_file))
    assert answer.code == 0, answer.err
    assert _sorted(Warehouse(named).query("judged")).equals(_sorted(first))

    second = stepcast("reproduce", str(reference), "--study", str(study_file))
    assert second.code == 2
    assert "holds runs already" in second.err


def test_forecasts_are_sealed_before_and_judged_after_they_are_measured(
    stepcast: Stepcast,
    finished: Ran,
    studies: Path,
    study_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    landing, reference = finished.home / "landing", tmp_path / "reference"
    assert "are measured in this home" in stepcast("seal", str(study_file), str(tmp_path)).refusal
    profiles = [run.run_id for run in landed_runs(landing) if run.purpose == "profile"]
    copy_kept_runs(landing, reference, profiles)

    monkeypatch.setenv("STEPCAST_HOME", str(tmp_path / "before"))
    assert stepcast("reproduce", str(reference)).code == 0
    # The runs of this study are from before the forecasts of this home.
    early = datetime(2020, 1, 1, tzinfo=UTC)
    monkeypatch.setattr("profilers.clock.now", lambda: early)
    sealed = stepcast("seal", str(study_file), str(reference / FOLDER))
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


def _sorted(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(COMPARED).sort(COMPARED)
