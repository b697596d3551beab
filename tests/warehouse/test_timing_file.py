"""Tests of large runs, whose timings stay in the file that landed."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from warehouse import loader
from warehouse.check import check
from warehouse.connection import connect
from warehouse.home import MAIN
from warehouse.publication import migrate, point_at_files
from warehouse.records import BadInput
from warehouse.recovery import recover
from warehouse.warehouse import Warehouse, read_only

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

ALL = "SELECT run_id, step, operation, duration_us FROM report.timing ORDER BY ALL"
ROWS = [("large", step, 0, step) for step in range(4)]
SMALL = [("small", 0, 0, 40), ("small", 0, 1, 9)]


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "LARGE_ROWS", 3)


def _timings(steps: int) -> pl.DataFrame:
    return pl.DataFrame(
        {"step": range(steps), "operation": 0, "start_us": 0, "duration_us": range(steps)},
        schema_overrides=dict.fromkeys(("operation", "start_us"), pl.Int32),
    )


def _land(make: "Maker", steps: int = 4) -> Path:
    make.profile("small", make.scenario())
    scenario = make.scenario()
    run = make.run("large", scenario, "profile", repeat=2)
    folder = make.land(run, scenario, {"timing": _timings(steps)})
    make.warehouse.load()
    return folder


def test_timings_of_a_large_run_stay_in_its_file(make: "Maker") -> None:
    folder = _land(make)
    assert make.rows(ALL).rows() == ROWS + SMALL
    assert make.rows("SELECT DISTINCT run_id FROM raw.timing")["run_id"].to_list() == ["small"]
    assert make.rows("SELECT file, rows FROM meta.timing_file").rows() == [
        (str(folder / "timing.parquet"), 4)
    ]
    assert make.rows("FROM raw.operation_time WHERE run_id = 'large'").height == 1
    visible = make.warehouse.visible("timing", ["large"])
    assert visible.height == 4
    assert make.warehouse.query("run_operations", run_id="small").height == 0  # names none
    assert check(make.home).findings == ()
    assert make.warehouse.load().unchanged == 2


def test_sql_reads_the_files_that_the_database_points_to_and_no_others(make: "Maker") -> None:
    folder = _land(make)
    with pytest.raises(BadInput, match="disabled"):
        read_only(make.home, f"FROM read_parquet('{folder / 'run.parquet'}')")


def test_a_large_run_that_landed_anew_has_its_new_timings(make: "Maker") -> None:
    folder = _land(make)
    for file in sorted(folder.iterdir()):
        file.unlink()
    folder.rmdir()
    scenario = make.scenario()
    make.land(make.run("large", scenario, "profile", repeat=2), scenario, {"timing": _timings(2)})
    assert make.warehouse.load().loaded == ("large",)
    assert make.rows(ALL).rows() == [*ROWS[:2], *SMALL]
    assert make.rows("FROM meta.timing_file").is_empty()


@pytest.mark.parametrize("name", ["moved", "o'clock [1] *"])
def test_a_home_that_moved_points_to_its_files_after_a_load(make: "Maker", name: str) -> None:
    _land(make)
    moved = make.home.with_name(name)
    make.home.rename(moved)
    Warehouse(moved).load()
    assert read_only(moved, ALL).rows() == ROWS + SMALL
    assert check(moved).findings == ()


def test_files_that_are_gone_are_told_and_a_load_does_without(make: "Maker") -> None:
    folder = _land(make)
    (folder / "timing.parquet").rename(make.home / "aside")
    (finding, *_) = [finding for finding in check(make.home).findings if finding.broken]
    assert f"1 files with timings are gone (first: {folder / 'timing.parquet'})" in finding.text
    with connect(make.home / MAIN) as connection:
        point_at_files(connection)
        assert connection.execute(ALL).fetchall() == SMALL
    (make.home / "aside").rename(folder / "timing.parquet")
    make.warehouse.load()
    assert make.rows(ALL).rows() == ROWS + SMALL


def test_views_made_anew_point_to_the_files(make: "Maker", tmp_path: Path) -> None:
    _land(make)
    with connect(make.home / MAIN) as connection:
        connection.execute("UPDATE meta.views SET sha256 = 'of other code'")
        migrate(connection)
        assert connection.execute(ALL).fetchall() == ROWS + SMALL
        assert connection.execute(
            "SELECT count(*) FROM duckdb_columns() "
            "WHERE schema_name = 'report' AND table_name = 'timing' AND comment IS NULL"
        ).fetchone() == (0,)


def test_a_warehouse_that_is_built_again_points_to_the_files(make: "Maker") -> None:
    _land(make)
    main = make.home / MAIN
    os.truncate(main, main.stat().st_size // 2)
    assert recover(make.home)
    make.warehouse.load()
    assert make.rows(ALL).rows() == ROWS + SMALL
    assert check(make.home).findings == ()


@pytest.mark.parametrize("damage", ["cut", "footer", "page"])
def test_a_damaged_file_of_timings_is_a_finding(make: "Maker", damage: str) -> None:
    """Its size and time may be as they were: only its bytes tell."""
    file = _land(make) / "timing.parquet"
    whole, state = file.read_bytes(), file.stat()
    file.write_bytes(
        {"cut": whole[:-40], "footer": whole[:-9] + bytes(9), "page": whole[:4] + bytes(40)}[damage]
        + whole[44:] * (damage == "page")
    )
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    (finding,) = check(make.home).findings
    assert finding.broken
    assert finding.text.startswith("run large is damaged in ")
    assert "timing.parquet is not the file that landed" in finding.text
