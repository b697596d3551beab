"""Graphs that were extracted once: kept by what made them, never stale, bounded."""

import gzip
import subprocess
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from networks import extraction, kept_graphs
from networks.extraction import primitive_graphs, step_graphs
from networks.kept_graphs import digest, keep, keep_in, kept

KEYS = [("small_cnn", 32), ("squeezenet", 64)]
STEP = ("small_cnn", 4, 32)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Return a folder in which this process keeps graphs during a test."""
    keep_in(tmp_path / "graphs")
    yield tmp_path / "graphs"
    keep_in(None)


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands of child processes, as they are started."""
    started: list[list[str]] = []
    run = subprocess.run

    def noted(command: list[str], **options: Any) -> Any:
        started.append(command)
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", noted)
    _forget(monkeypatch)
    return started


def _forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be as a new process."""
    monkeypatch.setattr(extraction, "_GRAPHS", OrderedDict())
    monkeypatch.setattr(extraction, "_PRIMITIVES", {})


def test_a_new_process_reads_what_another_extracted(
    folder: Path, children: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    extracted = primitive_graphs(KEYS), step_graphs([STEP], "pytorch")
    assert len(children) == 2
    _forget(monkeypatch)
    assert (primitive_graphs(KEYS), step_graphs([STEP], "pytorch")) == extracted
    assert len(children) == 2
    assert [path.name for path in folder.iterdir()] == [digest()]


def test_graphs_of_other_code_are_not_read_and_go(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep("graph", "{}")
    monkeypatch.setattr(kept_graphs, "digest", lambda: "of-other-code")
    assert kept("graph") is None
    keep("graph", "{}")
    assert kept("graph") == {}
    assert [path.name for path in folder.iterdir()] == ["of-other-code"]


def test_a_release_of_a_framework_is_in_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "another")
    assert digest.__wrapped__() != before


def test_a_damaged_graph_is_none(folder: Path) -> None:
    keep("graph", "{}")
    (file,) = (folder / digest()).iterdir()
    for damaged in (file.read_bytes()[:12], b"", b"no gzip", gzip.compress(b"[1")):
        file.write_bytes(damaged)
        assert kept("graph") is None


def test_a_graph_that_says_something_else_is_extracted_again(
    folder: Path, children: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = primitive_graphs(KEYS[:1])
    (file,) = (folder / digest()).iterdir()
    file.write_bytes(gzip.compress(b"[1]"))
    _forget(monkeypatch)
    assert primitive_graphs(KEYS[:1]) == found
    assert len(children) == 2


def test_no_more_are_kept_than_the_bound(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_graphs, "_MOST_GRAPHS", 2)
    for number in range(4):
        keep(f"graph-{number}", "{}")
    assert [kept(f"graph-{number}") for number in range(4)] == [{}, {}, None, None]


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    keep_in(tmp_path / "file")
    try:
        keep("graph", "{}")
        assert kept("graph") is None
    finally:
        keep_in(None)
