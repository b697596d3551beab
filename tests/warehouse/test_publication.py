"""Publishing is a copy and one rename: readers keep what they read, whatever fails meanwhile."""

import shutil
import subprocess
from pathlib import Path

import duckdb
import pytest

from tests.warehouse.conftest import Maker
from warehouse import landing, publication
from warehouse.history import known_runs
from warehouse.landing import landed_runs
from warehouse.publication import migrate
from warehouse.records import Run, StepcastError
from warehouse.sql import read_only

COUNTS = "SELECT (SELECT count(*) FROM raw.run), (SELECT count(*) FROM raw.timing)"


def test_a_history_that_was_not_published_is_published_by_the_next_load(
    make: Maker, monkeypatch: pytest.MonkeyPatch
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
    make: Maker, monkeypatch: pytest.MonkeyPatch
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


def test_what_dead_writers_left_is_removed(fresh: Maker, dead_pid: int) -> None:
    fresh.home.mkdir()
    (fresh.home / f".tmp-{dead_pid}-aa").write_text("half a copy")
    (fresh.home / f".tmp-{dead_pid}-aa.wal").write_text("")
    (fresh.home / ".tmp-1-aa").write_text("the first process lives")
    fresh.warehouse.load()
    left = [path.name for path in fresh.home.iterdir() if path.name.startswith(".tmp")]
    assert left == [".tmp-1-aa"]


def test_a_warehouse_made_meanwhile_is_kept(fresh: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    main = fresh.home / "warehouse.duckdb"

    def slow_migrate(connection: duckdb.DuckDBPyConnection) -> None:
        monkeypatch.setattr(publication, "migrate", migrate)
        fresh.profile("r1", fresh.scenario())
        fresh.warehouse.load()
        migrate(connection)

    monkeypatch.setattr(publication, "migrate", slow_migrate)
    publication.ensure_warehouse(main)
    assert fresh.warehouse.visible("run")["run_id"].to_list() == ["r1"]


@pytest.mark.cluster  # it mounts
def test_a_full_disk_keeps_what_was_published(make: Maker) -> None:
    """There is room for a load, and not for a second copy of what it made."""
    home = make.home / "small"
    home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128m", "tmpfs", str(home)], check=True)
    try:
        small = type(make)(home)
        small.profile("r1", small.scenario())
        small.warehouse.load()
        small.profile("r2", small.scenario(), repeat=2)
        room_bytes = (home / "history.duckdb").stat().st_size // 2
        free_bytes = shutil.disk_usage(home).free
        (home / "others").write_bytes(bytes(free_bytes - room_bytes))
        with pytest.raises(StepcastError, match=r"not published: .*No space left on device; it n"):
            small.warehouse.load()
        assert read_only(home, COUNTS).row(0) == (1, 2)
        assert not list(home.glob(".tmp*"))
        (home / "others").unlink()
        assert small.warehouse.load().unchanged == 2
        assert read_only(home, COUNTS).row(0) == (2, 4)
        assert (home / "warehouse.duckdb").read_bytes() == (home / "history.duckdb").read_bytes()
    finally:
        subprocess.run(["umount", str(home)], check=True)
