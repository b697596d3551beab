import hashlib
import shutil
import tarfile
from pathlib import Path

import duckdb
import pytest

from tests.warehouse.conftest import Maker
from warehouse import publication
from warehouse.check import check
from warehouse.connection import SCHEMA
from warehouse.publication import VIEWS, lag, migrate
from warehouse.records import BadInput, StepcastError


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
        for table in ("catalog.price", "catalog.node_type"):
            rows = connection.execute(f"FROM {table} ORDER BY ALL").fetchall()
            assert rows == usual.execute(f"FROM {table} ORDER BY ALL").fetchall()


def test_an_older_warehouse_is_migrated_at_open(
    make: Maker, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make.measure("r1", make.scenario(), [2.0], minute=5)
    make.warehouse.load()
    add(folder, "ALTER TABLE meta.loaded ADD COLUMN extra INTEGER")
    monkeypatch.setattr(publication.migrate, "__defaults__", (folder,))
    assert make.warehouse.query("runs")["run_id"].to_list() == ["r1"]
    with duckdb.connect(str(make.home / "warehouse.duckdb")) as connection:
        assert connection.execute("SELECT extra FROM meta.loaded").fetchall() == [(None,)]


def test_a_newer_warehouse_is_refused(make: Maker) -> None:
    make.warehouse.load()
    with duckdb.connect(str(make.home / "warehouse.duckdb")) as connection:
        connection.execute("INSERT INTO meta.migration VALUES (9000, '9000_x.sql', '', now())")
    with pytest.raises(BadInput, match=r"version 9000 .* up to \d+; update Stepcast"):
        make.warehouse.load()


@pytest.mark.parametrize(
    ("file", "line", "edited"),
    [
        ("0001_meta.sql", "-- edited", "0001_meta.sql"),
        ("*_price.csv", "aws,p3.2xlarge,,spot,0.01,2020,nobody,nowhere,", r"\d+_catalog.sql"),
    ],
)
def test_another_edition_of_a_migration_or_its_table_is_refused(
    folder: Path, file: str, line: str, edited: str
) -> None:
    with duckdb.connect() as connection:
        migrate(connection, folder)
        with next(folder.glob(file)).open("a") as opened:
            opened.write(f"{line}\n")
        with pytest.raises(BadInput, match=f"another edition of {edited}"):
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


EARLIER = Path(__file__).with_name("schema_0033.tar.xz")
"""The migrations of schema 1 to 33 as they were committed: those of then made views too."""


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earlier")
    with tarfile.open(EARLIER) as archive:
        archive.extractall(folder, filter="data")
    return folder


def catalog(connection: duckdb.DuckDBPyConnection) -> dict[str, list[tuple[object, ...]]]:
    """Return what views, columns and macros there are, with their comments."""
    queries = {
        "views": "SELECT schema_name, view_name, sql, comment FROM duckdb_views()",
        "columns": "SELECT schema_name, table_name, column_name, data_type, comment "
        "FROM duckdb_columns()",
        "macros": "SELECT schema_name, function_name, macro_definition, parameters::VARCHAR "
        "FROM duckdb_functions()",
    }
    return {
        what: connection.execute(f"{query} WHERE NOT internal ORDER BY ALL").fetchall()
        for what, query in queries.items()
    }


@pytest.mark.parametrize("version", [1, 7, 12, 19, 22, 29, 31, 33])
def test_a_database_of_every_earlier_edition_is_brought_up_to_date(
    version: int, earlier: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "schema"
    folder.mkdir()
    for file in earlier.iterdir():
        if int(file.name[:4]) <= version:
            shutil.copy(file, folder)
    with duckdb.connect() as old, duckdb.connect() as new:
        for file in sorted(folder.glob("*.sql")):
            old.execute("SET VARIABLE schema_folder = ?", [str(folder)])
            old.execute(file.read_text())
            csv = sorted(folder.glob(f"{file.name[:4]}_*.csv"))
            digest = hashlib.sha256(b"".join(each.read_bytes() for each in (file, *csv)))
            old.execute(
                "INSERT INTO meta.migration VALUES (?, ?, ?, now())",
                [int(file.name[:4]), file.name, digest.hexdigest()],
            )
        before, after = migrate(old)
        migrate(new)
        assert (before, after) == (version, max(int(file.name[:4]) for file in SCHEMA.glob("0*")))
        assert catalog(old) == catalog(new)


def test_views_are_made_anew_when_their_files_have_changed(tmp_path: Path) -> None:
    views = Path(shutil.copytree(VIEWS, tmp_path / "views"))
    with duckdb.connect() as connection:
        migrate(connection)
        made = catalog(connection)
        assert lag(connection) is None
        (views / "99_more.sql").write_text("CREATE VIEW report.more AS SELECT 1 AS x")
        assert lag(connection, views=views) == "views of another edition than this Stepcast's"
        migrate(connection, views=views)
        assert connection.execute("FROM report.more").fetchall() == [(1,)]
        (views / "99_more.sql").write_text("CREATE VIEW report.more AS SELECT y FROM nowhere")
        with pytest.raises(StepcastError, match=r"could not be made: .*nowhere"):
            migrate(connection, views=views)
        assert connection.execute("FROM report.more").fetchall() == [(1,)]
        migrate(connection)
        assert catalog(connection) == made


def test_timings_that_were_in_files_come_with_the_next_load(make: Maker) -> None:
    make.profile("large", make.scenario())
    make.warehouse.load()
    timings = "FROM raw.timing ORDER BY ALL"
    before = make.rows(timings)
    with duckdb.connect(str(make.home / "warehouse.duckdb")) as connection:
        connection.execute("DELETE FROM meta.migration WHERE version = 38")
        connection.execute((SCHEMA / "0037_timing_file.sql").read_text())
        connection.execute("INSERT INTO meta.timing_file VALUES ('large', 'timing.parquet', 2)")
        connection.execute("DELETE FROM raw.timing")
    assert make.warehouse.load().loaded == ("large",)
    assert make.rows(timings).equals(before)
    assert check(make.home).findings == ()
