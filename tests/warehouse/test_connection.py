import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

from warehouse.connection import connect, transaction
from warehouse.records import DamagedFile, WarehouseBusy
from warehouse.warehouse import read_only

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker

HOLD = "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('held', flush=True); input()"


@pytest.fixture
def holder(make: "Maker") -> Iterator[subprocess.Popen[str]]:
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


def test_a_busy_warehouse_names_the_process(make: "Maker", holder: subprocess.Popen[str]) -> None:
    command = Path(f"/proc/{holder.pid}/comm").read_text().strip()
    with pytest.raises(WarehouseBusy, match=rf"held by process {holder.pid} \({command}\)"):
        make.warehouse.load()


def test_the_published_copy_is_readable_meanwhile(
    make: "Maker", holder: subprocess.Popen[str]
) -> None:
    assert read_only(make.home, "SELECT run_id FROM report.measured").height == 3


def test_a_lock_that_goes_away_is_waited_for(make: "Maker", holder: subprocess.Popen[str]) -> None:
    main = make.home / "warehouse.duckdb"
    waiting = subprocess.Popen(["sh", "-c", f"sleep 0.3; kill -9 {holder.pid}"])
    with connect(main, patience_s=60) as connection:
        assert connection.execute("SELECT count(*) FROM raw.run").fetchone() == (1,)
    waiting.wait(timeout=10)


@pytest.mark.parametrize("content", [b"", b"hello " * 1000])
def test_a_file_that_is_no_database_is_damaged(fresh: "Maker", content: bytes) -> None:
    fresh.home.mkdir()
    (fresh.home / "warehouse.duckdb").write_bytes(content)
    with pytest.raises(
        DamagedFile, match=r"warehouse.duckdb is damaged .*`stepcast load`"
    ) as caught:
        fresh.warehouse.load()
    assert "\n" not in str(caught.value)
    assert (fresh.home / "warehouse.duckdb").read_bytes() == content


def test_a_truncated_database_is_damaged(make: "Maker") -> None:
    make.warehouse.load()
    os.truncate(make.home / "warehouse.duckdb", 5000)
    with pytest.raises(DamagedFile, match="nothing is lost: `stepcast load`"):
        make.warehouse.load()


def test_a_connection_is_closed_when_its_user_fails(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), connect(tmp_path / "x.duckdb") as connection:
        raise ZeroDivisionError
    with pytest.raises(duckdb.ConnectionException):
        connection.execute("SELECT 1")


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
