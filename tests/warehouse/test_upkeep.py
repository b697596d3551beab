import subprocess
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

from tests.warehouse.conftest import Maker, limited
from warehouse import publication, upkeep
from warehouse.check import check
from warehouse.connection import SCHEMA, presence
from warehouse.records import StepcastError, WarehouseBusy
from warehouse.upkeep import backup, compact, contents
from warehouse.warehouse import Warehouse

COMMENTS = "SELECT table_name, column_name, comment FROM duckdb_columns() WHERE NOT internal"
CONSTRAINTS = "SELECT table_name, constraint_text FROM duckdb_constraints()"


def everything(file: Path) -> dict[str, tuple[int, int]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return dict(contents(connection))


def schema_of(file: Path) -> list[set[tuple[object, ...]]]:
    with duckdb.connect(str(file), read_only=True) as connection:
        return [set(connection.execute(sql).fetchall()) for sql in (COMMENTS, CONSTRAINTS)]


def names(home: Path) -> set[str]:
    return {path.name for path in home.iterdir()}


def test_a_backup_holds_everything_and_can_take_the_warehouses_place(
    filled: Maker, tmp_path: Path
) -> None:
    main = filled.home / "warehouse.duckdb"
    copy = backup(filled.home, tmp_path / "usb" / "copies")
    assert copy.parent == tmp_path / "usb" / "copies"
    assert everything(copy) == everything(main)
    filled.measure("m2", filled.scenario(2), [2.1], minute=9)
    filled.warehouse.load()
    copy.replace(main)
    assert filled.warehouse.load().loaded == ("m2",)
    assert check(filled.home).findings == ()


@pytest.mark.parametrize(
    ("work", "message"),
    [
        (lambda home: backup(home, home.parent / "full"), r"not backed up to .*full: copying"),
        (compact, r"not be written: .*File too large; free"),
    ],
)
def test_what_does_not_fit_changes_nothing(
    filled: Maker, work: Callable[[Path], object], message: str
) -> None:
    before, known = filled.main.read_bytes(), names(filled.home)
    with limited(100_000), pytest.raises(StepcastError, match=message):
        work(filled.home)
    assert filled.main.read_bytes() == before
    assert names(filled.home) == known
    assert not list((filled.home.parent / "full").glob("*"))


def test_compaction_reclaims_space_and_keeps_all_else(filled: Maker) -> None:
    main = filled.home / "warehouse.duckdb"
    with duckdb.connect(str(main)) as connection:
        for table in ("big", "behind"):
            rows = "SELECT hash(i) AS x FROM range(1000000) t(i)"
            connection.execute(f"CREATE TABLE meta.{table} AS {rows}")
            connection.execute("CHECKPOINT")
        connection.execute("DROP TABLE meta.big")
    before, schema = everything(main), schema_of(main)
    sizes = compact(filled.home)
    assert sizes[1] < sizes[0] - 3_000_000
    assert sizes[1] == main.stat().st_size
    assert everything(main) == before == everything(filled.home / "history.duckdb")
    assert schema_of(main) == schema
    assert names(filled.home) == {"warehouse.duckdb", "history.duckdb", "landing", "journal"}
    assert filled.warehouse.load().unchanged == 2


def test_a_compaction_that_lost_rows_is_not_used(
    filled: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rewrite = upkeep._rewrite  # noqa: SLF001

    def lossy(connection: duckdb.DuckDBPyConnection, fresh: Path) -> None:
        rewrite(connection, fresh)
        with duckdb.connect(str(fresh)) as other:
            other.execute("UPDATE raw.timing SET duration_us = 1 WHERE operation = 1")

    monkeypatch.setattr(upkeep, "_rewrite", lossy)
    before = (filled.home / "warehouse.duckdb").read_bytes()
    with pytest.raises(StepcastError, match=r"of raw.timing it has .* expected \(2, "):
        compact(filled.home)
    assert (filled.home / "warehouse.duckdb").read_bytes() == before
    assert names(filled.home) == {"warehouse.duckdb", "history.duckdb", "landing", "journal"}


def test_nobody_opens_a_warehouse_while_its_file_is_replaced(filled: Maker) -> None:
    with (
        presence(filled.home, alone=True),
        pytest.raises(WarehouseBusy, match="is being compacted; wait"),
    ):
        filled.warehouse.load()
    with presence(filled.home), pytest.raises(WarehouseBusy, match="in use by another process"):
        compact(filled.home)


@pytest.fixture
def newer_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Add a migration, 9000, to those that the code knows."""
    folder = tmp_path / "schema"
    subprocess.run(["cp", "-r", SCHEMA, folder], check=True, timeout=10)
    (folder / "9000_more.sql").write_text("ALTER TABLE meta.loaded ADD COLUMN extra INTEGER")
    for function in (publication.migrate, publication.versions, publication.lag):
        monkeypatch.setattr(function, "__defaults__", (folder,))


@pytest.mark.usefixtures("newer_code")
def test_migrating_keeps_the_warehouse_as_it_was(filled: Maker) -> None:
    before = everything(filled.home / "warehouse.duckdb")
    (finding,) = check(filled.home).findings
    assert "this Stepcast reads 9000; `stepcast load`" in finding.text
    for _ in range(2):
        filled.warehouse.load()
        (copied,) = (filled.home / "backups").iterdir()
        assert everything(copied) == before
        assert check(filled.home).findings == ()


@pytest.mark.usefixtures("newer_code")
def test_without_room_for_the_backup_nothing_is_migrated(filled: Maker) -> None:
    before = everything(filled.home / "warehouse.duckdb")
    with limited(100_000), pytest.raises(StepcastError, match="was not backed up"):
        Warehouse(filled.home).load()
    assert everything(filled.home / "warehouse.duckdb") == before


def test_what_a_killed_load_spilled_is_removed(filled: Maker) -> None:
    spilled = filled.home / "warehouse.duckdb.tmp"
    spilled.mkdir()
    (spilled / "duckdb_temp_storage_DEFAULT-0.tmp").write_bytes(bytes(100))
    filled.warehouse.load()
    assert not spilled.exists()
