import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from warehouse import migrations
from warehouse.migrations import SCHEMA, migrate
from warehouse.records import BadInput, StepcastError

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SCHEMA, tmp_path / "schema"))


def add(folder: Path, sql: str) -> None:
    (folder / "9000_more.sql").write_text(sql)


def test_migrations_apply_once_and_are_recorded() -> None:
    with duckdb.connect() as connection:
        migrate(connection)
        query = "SELECT version, name, sha256, applied_at FROM meta.migration ORDER BY version"
        first = connection.execute(query).fetchall()
        assert [name for _, name, _, _ in first] == sorted(f.name for f in SCHEMA.glob("*.sql"))
        migrate(connection)
        assert connection.execute(query).fetchall() == first


def test_stepcast_may_be_installed_in_a_folder_of_any_name(tmp_path: Path) -> None:
    """DuckDB takes a=b in a path for a column, and * and [ for a pattern."""
    folder = shutil.copytree(SCHEMA, tmp_path / "name=x[1]*" / "schema")
    with duckdb.connect() as connection, duckdb.connect() as usual:
        migrate(connection, folder)
        migrate(usual)
        for table in ("catalog.price", "pred.system"):
            rows = connection.execute(f"FROM {table} ORDER BY ALL").fetchall()
            assert rows == usual.execute(f"FROM {table} ORDER BY ALL").fetchall()


def test_an_older_warehouse_is_migrated_at_open(
    make: "Maker", folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.measure("r1", make.scenario(), [2.0], minute=5)
    make.warehouse.load()
    add(folder, "ALTER TABLE meta.loaded ADD COLUMN extra INTEGER")
    monkeypatch.setattr(migrations.migrate, "__defaults__", (folder,))
    assert make.warehouse.query("runs")["run_id"].to_list() == ["r1"]
    with duckdb.connect(str(make.home / "warehouse.duckdb")) as connection:
        assert connection.execute("SELECT extra FROM meta.loaded").fetchall() == [(None,)]


def test_a_newer_warehouse_is_refused(make: "Maker") -> None:
    make.warehouse.load()
    with duckdb.connect(str(make.home / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO meta.migration VALUES (9000, '9000_x.sql', '', now())")
    with pytest.raises(BadInput, match=r"version 9000 .* up to \d+; update Stepcast"):
        make.warehouse.load()


def test_another_edition_of_a_migration_is_refused(folder: Path) -> None:
    with duckdb.connect() as connection:
        migrate(connection)
        with (folder / "0001_meta.sql").open("a") as file:
            file.write("-- edited\n")
        with pytest.raises(BadInput, match=r"another edition of 0001_meta.sql"):
            migrate(connection, folder)


def test_a_failing_migration_leaves_nothing_of_itself(folder: Path) -> None:
    add(folder, "CREATE TABLE meta.half (x INTEGER); CREATE TABLE meta.half (x INTEGER);")
    with duckdb.connect() as connection:
        with pytest.raises(StepcastError, match=r"migration 9000_more.sql failed: .*half"):
            migrate(connection, folder)
        assert connection.execute("SELECT max(version) < 9000 FROM meta.migration").fetchone() == (
            True,
        )
        add(folder, "CREATE TABLE meta.half (x INTEGER)")
        migrate(connection, folder)


def test_a_table_of_a_migration_is_part_of_its_edition(folder: Path) -> None:
    with duckdb.connect() as connection:
        migrate(connection, folder)
        with next(folder.glob("*_price.csv")).open("a") as file:
            file.write("aws,p3.2xlarge,,spot,0.01,2020,nobody,nowhere,\n")
        with pytest.raises(BadInput, match=r"another edition of \d+_catalog.sql"):
            migrate(connection, folder)
