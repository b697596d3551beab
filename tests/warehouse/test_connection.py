import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import duckdb
import pytest

from tests.warehouse.conftest import Maker
from warehouse.connection import connect, transaction
from warehouse.durable_files import sweep_home
from warehouse.records import BadInput, WarehouseBusy
from warehouse.sql import read_only

HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); input()"


@pytest.fixture
def holder(make: Maker) -> Iterator[subprocess.Popen[str]]:
    """Yield a process that holds the warehouse, which has one run."""
    make.measure("r1", make.scenario(), [2.0], minute=5)
    make.warehouse.load()
    command = [sys.executable, "-c", HOLD, str(make.home / "warehouse.duckdb")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_busy_warehouse_names_the_process_and_its_copy_is_readable(
    make: Maker, holder: subprocess.Popen[str]
) -> None:
    command = Path(f"/proc/{holder.pid}/comm").read_text().strip()
    with pytest.raises(WarehouseBusy, match=rf"held by process {holder.pid} \({command}\)"):
        make.warehouse.load()
    assert read_only(make.home, "SELECT run_id FROM report.measured").height == 3


def test_a_lock_that_goes_away_is_waited_for(
    make: Maker, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("warehouse.connection.PATIENCE_S", 60.0)
    main = make.home / "warehouse.duckdb"
    waiting = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {holder.pid}"])
    with connect(main) as connection:
        assert connection.execute("SELECT count(*) FROM raw.run").fetchone() == (1,)
    waiting.wait(timeout=10)


HEADER_OF_2_0_1 = b"".join(
    [
        b"\xe2\xf4\x12\xc5\xc8\xadQ\x9fDUCK",
        (999).to_bytes(40, "little"),
        b"v2.0.1".ljust(32, b"\0"),
        b"8d78114e90".ljust(40, b"\0"),
        b"\x0ba\x12\x97\xe5/?\xb09\xad\xb4\xd9\xb1\xfbE",
    ]
)
"""How a file of DuckDB 2.0.1 begins: sum, name, version of storage, release."""


def test_a_file_of_a_newer_duckdb_is_not_taken_for_damaged(tmp_path: Path) -> None:
    file = tmp_path / "warehouse.duckdb"
    duckdb.connect(str(file)).close()
    file.write_bytes(HEADER_OF_2_0_1.ljust(4096, b"\0") + file.read_bytes()[4096:])
    with pytest.raises(BadInput, match="was written by a newer DuckDB than"), connect(file):
        pass


def test_a_transaction_commits_all_or_nothing(tmp_path: Path) -> None:
    with connect(tmp_path / "x.duckdb") as connection:
        with transaction(connection):
            connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        with pytest.raises(ZeroDivisionError), transaction(connection):
            connection.execute("INSERT INTO t VALUES (2)")
            raise ZeroDivisionError
        assert connection.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_sql_cannot_read_python_variables(tmp_path: Path) -> None:
    with connect(tmp_path / "x.duckdb") as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS x")
        frame = connection.execute("FROM t").pl()
        with pytest.raises(duckdb.CatalogException, match="frame"):
            connection.execute("SELECT * FROM frame")
        assert frame.height == 1


def test_visible_hides_measurements_and_failures(make: Maker) -> None:
    scenario = make.scenario()
    make.profile("p1", scenario)
    make.profile("p2", scenario, repeat=2)
    make.measure("m1", scenario, [2.0], minute=5)
    failed = make.run("p3", scenario, "profile").model_copy(update={"status": "failed"})
    make.land(failed, scenario)
    make.warehouse.load()
    assert make.warehouse.visible("run")["run_id"].to_list() == ["p1", "p2"]
    assert make.warehouse.visible("scenario")["run_id"].to_list() == ["p1", "p2"]
    assert make.warehouse.visible("sample").is_empty()
    assert make.warehouse.visible("timing", ["p2", "m1"])["run_id"].to_list() == ["p2", "p2"]
    assert make.warehouse.visible("timing", []).is_empty()
    together = make.warehouse.visible_tables(["run", "timing"], ["p2", "m1"])
    assert list(together) == ["run", "timing"]
    for name, rows in together.items():
        assert rows.equals(make.warehouse.visible(name, ["p2", "m1"]))
        assert set(rows["run_id"]) == {"p2"}
    with pytest.raises(BadInput, match="no table 'runs'; the tables are run, "):
        make.warehouse.visible("runs")


def test_times_are_utc(make: Maker) -> None:
    run = make.run("p1", None, "profile", minute=3)
    make.land(run, None)
    make.warehouse.load()
    for frame in (make.warehouse.visible("run"), read_only(make.home, "FROM raw.run")):
        assert frame["started_at"].to_list() == [run.started_at]
        assert frame.schema["started_at"].time_zone == "UTC"  # type: ignore[attr-defined]


def test_without_a_history_the_message_says_what_to_do(fresh: Maker) -> None:
    with pytest.raises(BadInput, match=r"no history in .*; run `make demo` or `stepcast run`"):
        read_only(fresh.home, "SELECT 1")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT *\nFORM x", r"at or near \"x\" \(line 2, at 'x'\)"),
        ("SELECT * FROM raw.rnu", "rnu does not exist"),
        ("INSERT INTO meta.loaded VALUES ('a', 'b', now())", "takes SELECT, not INSERT"),
        ("SELECT 1; DROP VIEW report.noise", "takes SELECT, not DROP"),
        ("ATTACH 'other.duckdb'", "takes SELECT, not ATTACH"),
        ("", "no SQL statement given"),
        ("SELECT ended_at - started_at FROM raw.run", "cast the column"),
    ],
)
def test_sql_that_cannot_be_run_is_one_line_of_bad_input(
    profiled: Maker, sql: str, message: str
) -> None:
    before = (profiled.home / "history.duckdb").read_bytes()
    with pytest.raises(BadInput, match=message) as caught:
        profiled.rows(sql)
    assert "\n" not in str(caught.value)
    assert (profiled.home / "history.duckdb").read_bytes() == before


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """Return a file that is no part of the warehouse."""
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    return file


@pytest.mark.parametrize(
    "sql",
    [
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/new.csv'",
        "FROM read_text('{secret}')",
        "FROM read_csv('{secret}')",
        "FROM glob('{folder}/*')",
        "FROM query('FROM read_blob(''{secret}'')')",
        "EXPLAIN ANALYZE ATTACH '{folder}/new.duckdb'",
        "EXPLAIN ANALYZE SET enable_external_access = true",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{history}' (FORMAT csv, USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{history}.wal' (FORMAT csv, USE_TMP_FILE false)",
        "explain/**/analyze COPY (SELECT 1) TO '{history}' (FORMAT csv, USE_TMP_FILE false)",
        "EXPLAIN (FORMAT json) COPY (SELECT 1) TO '{history}'",
        "FROM enable_logging(storage = 'file', storage_path = '{folder}/logs')",
        "WITH a AS MATERIALIZED (FROM enable_profiling(format = 'json', save_location = "
        "'{history}')) FROM a",
        "FROM query('FROM enable_profiling(format = ''json'', save_location = ''{history}'')')",
        "FROM json_execute_serialized_sql(json_serialize_sql('FROM enable_profiling()'))",
        "FROM checkpoint()",
        "FROM arrow_scan(1::POINTER, 2::POINTER, 3::POINTER)",
        "FROM sniff_csv('{secret}')",
        "FROM read_duckdb('{folder}/new.duckdb', table_name = 't')",
        "FROM '{secret}'",
        "PRAGMA import_database('{folder}')",
        "CALL enable_logging()",
        "SELECT getenv('HOME')",
        "INSTALL httpfs",
    ],
)
def test_sql_reaches_no_other_file_and_no_setting(profiled: Maker, secret: Path, sql: str) -> None:
    before = {path: path.stat().st_size for path in secret.parent.rglob("*")}
    with pytest.raises(BadInput) as caught:
        history = profiled.home / "history.duckdb"
        profiled.rows(sql.format(folder=secret.parent, secret=secret, history=history))
    assert "\n" not in str(caught.value)
    assert {path: path.stat().st_size for path in secret.parent.rglob("*")} == before


SPILL = """
import os
from warehouse.connection import connect
from warehouse.home import HISTORY, home
settings = {"memory_limit": "50MB", "enable_progress_bar": "false"}
with connect(home() / HISTORY, read_only=True, settings=settings) as connection:
    rows = connection.execute("SELECT md5(r::TEXT) AS m FROM range(2000000) AS t(r) ORDER BY m")
    rows.fetchone()
    print("spilled", flush=True)
    os.read(0, 1)
"""


def test_what_a_killed_reader_spilled_is_in_the_home_and_swept(
    make: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(make.home))
    make.warehouse.load()
    before = set(make.home.iterdir())
    with subprocess.Popen(
        [sys.executable, "-c", SPILL], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"spilled\n"
        (spilled,) = set(make.home.iterdir()) - before
        assert list(spilled.iterdir())
        assert sweep_home(make.home) == []
        reader.kill()
    assert sweep_home(make.home) == [spilled]
    assert set(make.home.iterdir()) == before


@pytest.mark.parametrize(
    ("foreign", "sql"),
    [
        ("VIEW report.noise AS SELECT content FROM read_text('{secret}')", "FROM report.noise"),
        ("VIEW report.noise AS FROM read_text('{home}/landing/r1/timing.parquet')", ""),
        ("MACRO main.max(x) AS (SELECT content FROM read_text('{secret}'))", "SELECT max(1)"),
        ("VIEW report.noise AS FROM enable_profiling(save_location = '{home}/history.duckdb')", ""),
    ],
)
def test_a_history_of_somebody_else_reaches_no_file(
    profiled: Maker, secret: Path, foreign: str, sql: str
) -> None:
    make = profiled
    (make.home / "landing" / "r1").mkdir(parents=True)
    (make.home / "landing" / "r1" / "timing.parquet").symlink_to(secret)
    places = {"secret": secret, "home": make.home}
    with duckdb.connect(str(make.home / "history.duckdb")) as connection:
        connection.execute(f"CREATE OR REPLACE {foreign.format(**places)}")
    before = (make.home / "history.duckdb").read_bytes()
    try:
        told = read_only(make.home, sql or "FROM report.noise").write_csv()
    except BadInput as error:
        told = str(error)
    assert "1,2" not in told
    assert "read-only" in told or "disabled" in told or told == "1\n1\n"
    assert (make.home / "history.duckdb").read_bytes() == before


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("FROM range(3)", 3),
        ("VALUES (1), (2)", 2),
        ("TABLE meta.loaded", 1),
        ("SHOW TABLES", 0),
        ("DESCRIBE raw.edge", 3),
        ("SUMMARIZE raw.edge", 3),
        ("EXPLAIN SELECT 1", 1),
        ("explain analyze SELECT count(*) FROM raw.run", 1),
        ("SELECT 1; -- a word", 1),
        ("WITH RECURSIVE a AS (SELECT 1 x UNION ALL SELECT x + 1 FROM a WHERE x < 4) FROM a", 4),
        ("SELECT json_each.value FROM json_each('[1, 2]')", 2),
        ("FROM duckdb_columns() WHERE table_name = 'edge' AND schema_name = 'raw'", 3),
        ("SELECT 1 WHERE false", 0),
    ],
)
def test_sql_reads_in_every_form(profiled: Maker, sql: str, rows: int) -> None:
    assert profiled.rows(sql).height == rows


def test_an_answer_is_bounded_while_it_comes(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    make.warehouse.load()
    monkeypatch.setattr("warehouse.limits.SQL_ANSWER_BYTES", 1 << 20)
    assert read_only(make.home, "FROM range(100_000)").height == 100_000
    with pytest.raises(BadInput, match="the answer takes more than 1 MiB; ask for fewer rows"):
        read_only(make.home, "FROM range(1_000_000_000_000)")


def test_sql_has_memory_and_disk_of_its_own(make: Maker) -> None:
    make.warehouse.load()
    names = ("memory_limit", "max_temp_directory_size", "lock_configuration")
    settings = ", ".join(f"current_setting('{name}') AS {name}" for name in names)
    assert read_only(make.home, f"SELECT {settings}").row(0) == ("953.6 MiB", "14.9 GiB", True)


def test_a_parameter_of_another_type_is_bad_input(make: Maker) -> None:
    make.warehouse.load()
    with pytest.raises(BadInput, match="query accuracy: Conversion Error: Could not convert"):
        make.warehouse.query("accuracy", repeat="first")


def test_much_may_be_read_in_one_go(make: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    warehouse, opened = make.warehouse, []
    connect = duckdb.connect

    def counted(*arguments: Any, **options: Any) -> duckdb.DuckDBPyConnection:
        opened.append(arguments)
        return connect(*arguments, **options)

    monkeypatch.setattr(duckdb, "connect", counted)
    with warehouse.reading():
        assert warehouse.visible("run").height == 1
        assert warehouse.query("fits").is_empty()
    assert len(opened) == 1
    assert warehouse.visible("run").height == 1
    assert len(opened) == 2


def test_views_of_a_database_reach_no_other_file(make: Maker, secret: Path) -> None:
    make.warehouse.load()
    view = f"SELECT content AS run_id FROM read_text('{secret}')"
    make.tamper(f"CREATE OR REPLACE VIEW visible.edge AS {view}")
    with pytest.raises(duckdb.PermissionException):
        make.warehouse.visible("edge")


def test_many_threads_open_a_file_at_once_and_all_see_utc(tmp_path: Path) -> None:
    """The first locks its settings, and the machine may be elsewhere."""
    file, at_once = tmp_path / "some.duckdb", Barrier(16)
    duckdb.connect(str(file)).close()

    def read(_: int) -> object:
        at_once.wait(60)
        with connect(file, read_only=True) as connection:
            return connection.execute("SELECT current_setting('TimeZone')").fetchone()

    with ThreadPoolExecutor(16) as pool:
        for _ in range(10):
            assert set(pool.map(read, range(16))) == {("UTC",)}
