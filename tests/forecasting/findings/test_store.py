"""Findings that are kept: computed once, and anew where rows or code have changed."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import polars as pl
import pytest

from forecasting import code
from forecasting.findings import cross_validation, predictddl, store
from forecasting.findings.figure import MeasuredRound
from forecasting.findings.store import FOLDER, Store, home_digest, known_digest
from models.predictddl.training_set import TrainingSet
from tests.models.predictddl import study

MODULE = "forecasting.findings.predictddl"


class Counted:
    """Computes a frame, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> pl.DataFrame:
        self.times += 1
        return pl.DataFrame({"value": [float(self.times), None]})


def test_what_is_kept_is_not_computed_again(tmp_path: Path) -> None:
    compute = Counted()
    first = Store(tmp_path, "grid.1").frame("boxes", MODULE, "rows", compute)
    again = Store(tmp_path, "grid.1").frame("boxes", MODULE, "rows", compute)
    assert compute.times == 1
    assert first.equals(again) and first.schema == again.schema


def test_other_rows_are_computed_and_replace_what_was_kept(tmp_path: Path) -> None:
    compute, kept = Counted(), Store(tmp_path, "grid.1")
    kept.frame("boxes", MODULE, "rows", compute)
    kept.frame("kinds", MODULE, "rows", compute)
    kept.frame("boxes", MODULE, "other rows", compute)
    assert compute.times == 3
    kept.frame("kinds", MODULE, "rows", compute)
    assert compute.times == 3
    names = sorted(path.name.rpartition(".")[0].rpartition(".")[0] for path in _files(tmp_path))
    assert names == ["grid.1.boxes", "grid.1.kinds"]


def test_other_code_computes_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compute, kept = Counted(), Store(tmp_path, "grid.1")
    kept.frame("boxes", MODULE, "rows", compute)
    monkeypatch.setattr(code, "digest", lambda modules, rooms: f"another {modules}")
    kept.frame("boxes", MODULE, "rows", compute)
    assert compute.times == 2


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    compute, kept = Counted(), Store(tmp_path, "grid.1")
    kept.frame("boxes", MODULE, "rows", compute)
    (file,) = _files(tmp_path)
    file.write_bytes(file.read_bytes()[:40])
    kept.frame("boxes", MODULE, "rows", compute)
    assert compute.times == 2
    assert len(_files(tmp_path)) == 1


def test_a_step_that_differs_names_other_runs() -> None:
    known = study.known()
    first, *others = known.runs
    slower = replace(known, runs=[replace(first, step_s=first.step_s * 1.01), *others])
    assert known_digest(known) == known_digest(study.known())
    assert known_digest(known) != known_digest(slower)


def test_a_second_page_fits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All figures of regressions are those of the first; they were fitted anew at each page."""
    fits = Counted()

    def fitted(
        known: TrainingSet, name: str, _: object, parts: cross_validation.Parts, split: str
    ) -> object:
        fits()
        rows = [(name, split, run.scenario.workload.dnn, 2, fits.times, 1.0) for run in known.runs]
        return pl.DataFrame(rows, cross_validation.ROWS, orient="row")

    def page(seen: str) -> list[pl.DataFrame | None]:
        chosen = pl.DataFrame({"seen": [seen], "unseen": ["none"]})
        monkeypatch.setattr(predictddl, "regressors", lambda _: chosen)
        return [rows(found) for rows in (*contests, predictddl.beside)]

    monkeypatch.setattr(cross_validation, "forecasts", fitted)
    monkeypatch.setattr(predictddl, "is_about", lambda _: True)
    found = cast(
        "MeasuredRound", SimpleNamespace(steps=study.known(), store=Store(tmp_path, "grid.1"))
    )
    contests = [each.rows for each in predictddl.FIGURES if "contest" in each.rows.__qualname__]
    assert len(contests) == 4
    first, once = page("none"), fits.times
    again = page("none")
    assert fits.times == once > 30
    for before, after in zip(first, again, strict=True):
        assert before is not None and after is not None and before.equals(after)
    page("trees")
    assert fits.times == once + 10, "only what has our regressors is fitted to others"


def _files(home: Path) -> list[Path]:
    return list((home / FOLDER).iterdir())


def test_a_page_rests_on_history_landing_files_and_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, history, code = (tmp_path / name for name in ("a.yaml", "history.duckdb", "code"))
    run = tmp_path / "landing" / "run"
    monkeypatch.setattr(store, "CHECKOUT", tmp_path)
    monkeypatch.setattr(store, "_PACKAGES", ("code",))
    code.mkdir()
    seen = [home_digest(tmp_path, study)]
    assert home_digest(tmp_path, study) == seen[0]
    for change in (
        lambda: study.write_text("name: a"),
        lambda: study.write_text("name: b"),
        lambda: history.write_bytes(b"1"),
        lambda: history.write_bytes(b"2"),
        lambda: run.mkdir(parents=True),
        lambda: (code / "query.sql").write_text("SELECT 1"),
        lambda: (code / "query.sql").write_text("SELECT 2"),
    ):
        change()
        seen.append(home_digest(tmp_path, study))
    assert len(set(seen)) == len(seen)
    (code / "__pycache__").mkdir()
    (code / "__pycache__" / "kernel.1.nbi").write_text("compiled")
    assert home_digest(tmp_path, study) == seen[-1], "compiled code is no change"
