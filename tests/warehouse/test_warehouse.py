from typing import TYPE_CHECKING

import pytest

from warehouse.records import BadInput
from warehouse.warehouse import read_only

if TYPE_CHECKING:
    from tests.warehouse.conftest import Maker


def test_visible_hides_measurements_and_failures(make: "Maker") -> None:
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


def test_visible_rows_come_in_one_order(make: "Maker") -> None:
    for run_id in ("p2", "p1"):
        make.profile(run_id, make.scenario())
        make.warehouse.load()
    rows = make.warehouse.visible("timing").rows()
    assert rows == sorted(rows)


def test_visible_knows_only_raw_tables(make: "Maker") -> None:
    with pytest.raises(BadInput, match="no table 'runs'; the tables are run, "):
        make.warehouse.visible("runs")


def test_times_are_utc(make: "Maker") -> None:
    run = make.run("p1", None, "profile", minute=3)
    make.land(run, None)
    make.warehouse.load()
    for frame in (make.warehouse.visible("run"), read_only(make.home, "FROM raw.run")):
        assert frame["started_at"].to_list() == [run.started_at]
        assert frame.schema["started_at"].time_zone == "UTC"  # type: ignore[attr-defined]


def test_without_a_history_the_message_says_what_to_do(fresh: "Maker") -> None:
    with pytest.raises(BadInput, match=r"no history in .*; run `make demo` or `stepcast run`"):
        read_only(fresh.home, "SELECT 1")


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELEC 1", "syntax error"),
        ("SELECT * FROM raw.rnu", "rnu does not exist"),
        ("INSERT INTO meta.loaded VALUES ('a', 'b', now())", "takes SELECT, not INSERT"),
        ("DELETE FROM raw.run", "takes SELECT, not DELETE"),
        ("SELECT 1; DROP VIEW report.noise", "takes SELECT, not DROP"),
        ("COPY raw.run TO 'run.csv'", "takes SELECT, not COPY"),
        ("CREATE TEMP TABLE t AS SELECT 1", "takes SELECT, not CREATE"),
        ("ATTACH 'other.duckdb'", "takes SELECT, not ATTACH"),
        ("", "no SQL statement given"),
        ("SELECT 1 WHERE 'x' = 1", "Could not convert"),
        ("SELECT ended_at - started_at FROM raw.run", "cast the column"),
    ],
)
def test_sql_that_cannot_be_run_is_one_line_of_bad_input(
    make: "Maker", sql: str, message: str
) -> None:
    make.land(make.run("p1", None, "profile"), None)
    make.warehouse.load()
    before = (make.home / "history.duckdb").read_bytes()
    with pytest.raises(BadInput, match=message) as caught:
        read_only(make.home, sql)
    assert "\n" not in str(caught.value)
    assert (make.home / "history.duckdb").read_bytes() == before


@pytest.mark.parametrize(
    "sql", ["FROM raw.run", "DESCRIBE raw.run", "SHOW ALL TABLES", "EXPLAIN SELECT 1", "VALUES (1)"]
)
def test_statements_that_read_are_run(make: "Maker", sql: str) -> None:
    make.land(make.run("p1", None, "profile"), None)
    make.warehouse.load()
    assert read_only(make.home, sql).height > 0
