import contextlib
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from warehouse import landing, publication
from warehouse.history import known_runs
from warehouse.landing import landed_runs
from warehouse.publication import migrate
from warehouse.records import Run, StepcastError
from warehouse.warehouse import read_only

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

COUNTS = "SELECT (SELECT count(*) FROM raw.run), (SELECT count(*) FROM raw.timing)"


def test_a_history_that_was_not_published_is_published_by_the_next_load(
    make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    make.warehouse.load()
    make.profile("r1", make.scenario())
    with monkeypatch.context() as patch:
        patch.setattr(publication, "_COPY_TIMEOUT_S", 0)
        with pytest.raises(StepcastError, match=r"history.duckdb was not published"):
            make.warehouse.load()
    assert read_only(make.home, COUNTS).row(0) == (0, 0)
    assert make.warehouse.load().unchanged == 1
    assert read_only(make.home, COUNTS).row(0) == (1, 2)


def test_runs_of_the_history_are_known_without_reading_them(
    make: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    make.profile("r1", make.scenario())
    make.warehouse.load()
    make.profile("r2", make.scenario())
    landed = landed_runs(make.home / "landing")
    read: list[str] = []

    def read_folder(folder: Path) -> Run:
        read.append(folder.name)
        return next(run for run in landed if run.run_id == folder.name)

    monkeypatch.setattr(landing, "_once_read", read_folder)
    assert known_runs(make.home) == landed
    assert read == ["r2"]
    (make.home / "history.duckdb").unlink()
    assert known_runs(make.home) == landed
    assert read == ["r2", "r1", "r2"]


def test_an_open_reader_keeps_its_history(make: "Maker") -> None:
    make.warehouse.load()
    with (make.home / "history.duckdb").open("rb") as reader:
        before = reader.read()
        make.profile("r1", make.scenario())
        make.warehouse.load()
        reader.seek(0)
        assert reader.read() == before
    assert (make.home / "history.duckdb").read_bytes() != before


def test_what_dead_writers_left_is_removed(fresh: "Maker", dead_pid: int) -> None:
    fresh.home.mkdir()
    (fresh.home / f".tmp-{dead_pid}-aa").write_text("half a copy")
    (fresh.home / f".tmp-{dead_pid}-aa.wal").write_text("")
    (fresh.home / ".tmp-1-aa").write_text("the first process lives")
    fresh.warehouse.load()
    left = [path.name for path in fresh.home.iterdir() if path.name.startswith(".tmp")]
    assert left == [".tmp-1-aa"]


def test_a_warehouse_made_meanwhile_is_kept(
    fresh: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    main = fresh.home / "warehouse.duckdb"

    def slow_migrate(connection: duckdb.DuckDBPyConnection) -> None:
        monkeypatch.setattr(publication, "migrate", migrate)
        fresh.profile("r1", fresh.scenario())
        fresh.warehouse.load()
        migrate(connection)

    monkeypatch.setattr(publication, "migrate", slow_migrate)
    publication.ensure_warehouse(main)
    assert fresh.warehouse.visible("run")["run_id"].to_list() == ["r1"]


@pytest.fixture
def grown(make: "Maker", monkeypatch: pytest.MonkeyPatch) -> "Maker":
    """Return a home whose histories count as large, published twice."""
    monkeypatch.setattr(publication, "DIFFERENCE_BYTES", 0)
    for number in range(2):
        make.profile(f"r{number}", make.scenario())
        make.warehouse.load()
    assert (make.home / publication.PREVIOUS).exists()
    return make


def whole_copies(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the files that are copied whole from here on."""
    copied: list[str] = []
    copy = publication.copy

    def noted(source: Path, target: Path, failure: str) -> None:
        copied.append(source.name)
        copy(source, target, failure)

    monkeypatch.setattr(publication, "copy", noted)
    return copied


def test_a_large_history_is_published_by_the_blocks_that_differ(
    grown: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = whole_copies(monkeypatch)
    for number in range(2, 6):
        grown.profile(f"r{number}", grown.scenario())
        grown.warehouse.load()
        main, history = (grown.home / f"{name}.duckdb" for name in ("warehouse", "history"))
        assert main.read_bytes() == history.read_bytes()
    assert copied == []
    assert read_only(grown.home, COUNTS).row(0) == (6, 12)


def test_a_copy_that_takes_long_is_of_one_moment(
    grown: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file server holds no lock of DuckDB, and may still send what was published long ago."""
    copied = whole_copies(monkeypatch)
    with (grown.home / "history.duckdb").open("rb") as served:
        before = served.read()
        for number in range(2, 5):
            grown.profile(f"r{number}", grown.scenario())
            grown.warehouse.load()
        served.seek(0)
        assert served.read() == before
    assert copied == ["warehouse.duckdb"]


@pytest.mark.parametrize("hold", ["reads", "links"])
def test_whoever_has_the_history_before_last_keeps_it(
    hold: str, grown: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    previous, kept = grown.home / publication.PREVIOUS, grown.home / "kept.duckdb"
    before = previous.read_bytes()
    copied = whole_copies(monkeypatch)
    with contextlib.ExitStack() as stack:
        if hold == "reads":
            reader = subprocess.Popen(
                [sys.executable, "-c", READER, previous], stdin=subprocess.PIPE, stdout=-1
            )
            stack.callback(reader.communicate)
            assert reader.stdout is not None and reader.stdout.readline() == b"1\n"
        if hold == "links":
            kept.hardlink_to(previous)
        grown.profile("r2", grown.scenario())
        grown.warehouse.load()
        if hold == "reads":
            assert reader.stdin is not None and reader.stdout is not None
            reader.stdin.write(b"again\n")
            reader.stdin.flush()
            assert reader.stdout.readline() == b"1\n"
    assert copied == ["warehouse.duckdb"]
    assert hold == "reads" or kept.read_bytes() == before
    assert read_only(grown.home, COUNTS).row(0) == (3, 6)


READER = """
import sys, duckdb
connection = duckdb.connect(sys.argv[1], read_only=True)
while True:
    print(connection.sql("SELECT count(*) FROM raw.run").fetchone()[0], flush=True)
    if not sys.stdin.readline():
        break
"""


def test_a_difference_that_was_not_written_whole_is_copied(
    grown: "Maker", monkeypatch: pytest.MonkeyPatch
) -> None:
    copied = whole_copies(monkeypatch)
    monkeypatch.setattr(publication, "_BLOCK_COPY", "no.such.module")
    grown.profile("r2", grown.scenario())
    grown.warehouse.load()
    assert copied == ["warehouse.duckdb"]
    assert read_only(grown.home, COUNTS).row(0) == (3, 6)
