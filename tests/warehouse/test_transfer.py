"""Runs go from one landing folder to another whole and once, and bad ones stay where they are."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.warehouse.conftest import Maker
from tests.warehouse.test_sets import content as dated
from warehouse import limits
from warehouse.landed_files import seal
from warehouse.landing import QUARANTINE, land, landed_runs
from warehouse.records import BadInput
from warehouse.transfer import copy_landed, copy_run

Sites = Callable[..., Path]


@pytest.fixture
def site(tmp_path: Path, make: Maker) -> Sites:
    """Return what makes the landing folder of another machine, whose runs have an artefact."""

    def made(name: str, *run_ids: str) -> Path:
        maker = type(make)(tmp_path / name)
        for run_id in run_ids:
            folder = maker.profile(run_id, maker.scenario())
            (folder / "artefacts").mkdir()
            (folder / "artefacts" / "trace.pb").write_bytes(run_id.encode())
        return maker.home / "landing"

    return made


def test_runs_of_two_machines_come_whole_and_once(make: Maker, site: Sites) -> None:
    first, second, landing = site("one", "r1", "r3"), site("other", "r2"), make.home / "landing"
    assert [copy_landed(folder, landing) for folder in (first, second)] == [(2, []), (1, [])]
    assert dated(landing) == dated(first) | dated(second)
    assert make.warehouse.load().loaded == ("r1", "r2", "r3")
    assert [copy_landed(folder, landing) for folder in (first, second)] == [(0, []), (0, [])]


def test_a_run_that_came_in_part_waits_for_the_rest(make: Maker, site: Sites) -> None:
    folder, landing = site("one", "r1", "r2", "r3"), make.home / "landing"
    late = (folder / "r2" / "timing.parquet").rename(folder / "late")
    (folder / "r3" / "run.parquet").write_bytes(b"PAR1")
    copied, (second, third) = copy_landed(folder, landing)
    assert copied == 1
    assert second == (
        f"run 'r2' was left in {folder}: timing.parquet is missing, which SHA256SUMS lists"
    )
    assert third.startswith(f"run 'r3' was left in {folder}: run.parquet is not the file that")
    assert {path.name for path in landing.iterdir()} == {"r1"}
    late.rename(folder / "r2" / "timing.parquet")
    assert copy_landed(folder, landing) == (1, [third])


def test_a_run_that_was_set_aside_comes_again_once_that_is_removed(
    make: Maker, site: Sites
) -> None:
    """Its files are those of its machine, but they are no run."""
    folder, landing = site("one", "r1"), make.home / "landing"
    whole = (folder / "r1" / "timing.parquet").read_bytes()
    (folder / "r1" / "timing.parquet").write_bytes(b"PAR1")
    seal(folder / "r1")
    assert copy_landed(folder, landing) == (1, [])
    assert [run.run_id for run in make.warehouse.load().quarantined] == ["r1"]
    aside = landing / QUARANTINE / "r1"
    (folder / "r1" / "timing.parquet").write_bytes(whole)
    seal(folder / "r1")
    lines = [f"run r1 was set aside before: remove {aside} to try it again"]
    assert copy_landed(folder, landing) == (0, lines)
    aside.rename(landing / ".removed")
    assert copy_landed(folder, landing) == (1, [])
    assert make.warehouse.load().loaded == ("r1",)


@pytest.mark.parametrize(
    ("limit", "said"),
    [("RUN_BYTES", "its files hold more than"), ("RUN_FILES", "it has more than 3 files")],
)
def test_a_larger_run_than_may_be_is_left(
    limit: str, said: str, make: Maker, site: Sites, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, landing = site("one", "large", "small"), make.home / "landing"
    if limit == "RUN_BYTES":
        (folder / "large" / "artefacts" / "trace.pb").write_bytes(b"x" * 100_000)
    else:
        for number in range(10):
            (folder / "large" / "artefacts" / f"{number}").touch()
    fits = {"RUN_BYTES": 50_000, "RUN_FILES": len(list((folder / "small").rglob("*")))}
    monkeypatch.setattr(limits, limit, fits[limit])
    copied, (line,) = copy_landed(folder, landing)
    assert copied == 1
    assert f"run large was not copied: {said.replace('3', str(fits[limit]))}" in line
    assert {path.name for path in landing.iterdir()} == {"small"}


def test_what_is_no_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="s3:/lab/runs is not a folder; expected one folder per"):
        copy_landed(Path("s3://lab/runs"), tmp_path)


@pytest.fixture
def source(make: Maker, tmp_path: Path) -> Path:
    """Return a landing folder with a run r1 that has an artefact."""
    trace = tmp_path / "trace.pb"
    trace.write_bytes(b"bytes")
    land(tmp_path / "source", make.run("r1", None, "profile"), None, {}, {"trace.pb": trace})
    return tmp_path / "source"


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda run, secret: (run / "edge.parquet").symlink_to(secret / "file"),
            "edge.parquet is a symbolic link; put the file itself in its place",
        ),
        (
            lambda run, secret: run.rename(secret / "r1") and run.symlink_to(secret / "r1"),
            "r1 is a symbolic link; put the folder itself in its place",
        ),
        (lambda run, _: os.mkfifo(run / "artefacts" / "pipe"), "pipe is no file; remove it"),
    ],
)
def test_what_is_no_plain_file_is_not_copied(
    source: Path, tmp_path: Path, spoil: Callable[[Path, Path], object], said: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    spoil(source / "r1", secret)
    with pytest.raises(BadInput, match=f"run r1 was not copied: {said}"):
        copy_run(source, tmp_path / "landing", "r1")
    assert list((tmp_path / "landing").iterdir()) == []


@pytest.mark.parametrize("run_id", ["../r1", "..", ""])
def test_a_run_id_that_leads_elsewhere_is_refused(
    source: Path, tmp_path: Path, run_id: str
) -> None:
    with pytest.raises(BadInput, match=r"run id .* cannot name a folder"):
        copy_run(source / "r1", tmp_path / "landing" / "deep", run_id)


def test_a_run_that_names_another_folder_is_no_landed_run(source: Path) -> None:
    """Else its id, which is foreign, would become a path."""
    (source / "r1").rename(source / "r2")
    assert landed_runs(source) == []
