import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from warehouse.landing import land, landed_run, landed_runs
from warehouse.records import BadInput
from warehouse.transfer import copy_run, copy_runs

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker


@pytest.fixture
def source(make: "Maker", tmp_path: Path) -> Path:
    """Return a landing folder with a run r1 that has an artefact."""
    trace = tmp_path / "trace.pb"
    trace.write_bytes(b"bytes")
    land(tmp_path / "source", make.run("r1", None, "profile"), None, {}, {"trace.pb": trace})
    return tmp_path / "source"


def content(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_a_run_is_copied_whole_and_once(source: Path, tmp_path: Path) -> None:
    assert copy_runs(source, tmp_path / "landing", ["r1"]) == 1
    assert content(tmp_path / "landing") == content(source)
    assert copy_runs(source, tmp_path / "landing", ["r1"]) == 0


def test_artefacts_may_be_left_out(source: Path, tmp_path: Path) -> None:
    assert copy_run(source, tmp_path / "landing", "r1", artefacts=False)
    assert content(tmp_path / "landing").keys() == {"r1/run.parquet", "r1/SHA256SUMS"}


def link_file(run: Path, secret: Path) -> None:
    (run / "edge.parquet").symlink_to(secret / "file")


def link_artefact(run: Path, secret: Path) -> None:
    (run / "artefacts" / "note").symlink_to(secret / "file")


def link_artefacts(run: Path, secret: Path) -> None:
    (run / "artefacts" / "trace.pb").unlink()
    (run / "artefacts").rmdir()
    (run / "artefacts").symlink_to(secret)


def link_run(run: Path, secret: Path) -> None:
    run.rename(secret / "r1")
    run.symlink_to(secret / "r1")


def put_pipe(run: Path, secret: Path) -> None:
    os.mkfifo(run / "artefacts" / "pipe")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (link_file, "edge.parquet is a symbolic link; put the file itself in its place"),
        (link_artefact, "note is a symbolic link; put the file itself in its place"),
        (link_artefacts, "artefacts is a symbolic link; put the folder itself in its place"),
        (link_run, "r1 is a symbolic link; put the folder itself in its place"),
        (put_pipe, "pipe is no file; remove it"),
    ],
)
def test_what_is_no_plain_file_is_not_copied(
    source: Path, tmp_path: Path, spoil: object, said: str
) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    assert callable(spoil)
    spoil(source / "r1", secret)
    with pytest.raises(BadInput, match=f"run r1 was not copied: {said}"):
        copy_run(source, tmp_path / "landing", "r1")
    assert list((tmp_path / "landing").iterdir()) == []


@pytest.mark.parametrize("run_id", ["../r1", "a/b", "..", ".tmp-1-x", "", "r1\n", "r" * 201])
def test_a_run_id_that_leads_elsewhere_is_refused(
    source: Path, tmp_path: Path, run_id: str
) -> None:
    with pytest.raises(BadInput, match=r"run id .* cannot name a folder"):
        copy_run(source / "r1", tmp_path / "landing" / "deep", run_id)


def test_a_run_that_names_another_folder_is_no_landed_run(source: Path) -> None:
    """Else its id, which is foreign, would become a path."""
    (source / "r1").rename(source / "r2")
    assert landed_runs(source) == []


@pytest.mark.parametrize("spoil", [link_file, link_artefacts, link_run])
def test_links_in_landing_are_not_followed(source: Path, tmp_path: Path, spoil: object) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "file").write_text("secret")
    assert callable(spoil)
    spoil(source / "r1", secret)
    with pytest.raises(BadInput, match="is a symbolic link"):
        landed_run(source / "r1")


def test_a_pipe_in_landing_is_not_waited_for(source: Path) -> None:
    os.mkfifo(source / "r1" / "edge.parquet")
    with pytest.raises(BadInput, match=r"edge\.parquet is no file"):
        landed_run(source / "r1")
