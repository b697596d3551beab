"""`stepcast sql`, `query` and `accuracy`."""

import json
import resource
from pathlib import Path

import pytest

from tests.pipelines.ran import Ran, Stepcast
from tests.synthetic import FORECASTERS
from warehouse.warehouse import QUERIES

KEYS = "system backend split metric n busy_n mape median_ape p90_ape max_ape noise_floor".split()


@pytest.fixture
def ask(stepcast: Stepcast, first_run: Ran, monkeypatch: pytest.MonkeyPatch) -> Stepcast:
    """Return the command line on the home in which a study has run."""
    monkeypatch.setenv("STEPCAST_HOME", str(first_run.home))
    return stepcast


SQL = "SELECT probe, count(*) AS runs, NULL AS nothing FROM raw.run GROUP BY probe ORDER BY probe"


def test_sql_prints_a_table(ask: Stepcast) -> None:
    lines = [line.split() for line in ask("sql", SQL).out.splitlines() if line.strip()]
    assert lines[0] == ["probe", "runs", "nothing"]
    assert lines[2:] == [
        ["links", "1", "NULL"],
        ["tf_throughput", "4", "NULL"],
        ["tf_trace", "2", "NULL"],
        ["3", "rows"],
    ]


@pytest.mark.parametrize("form", ["table", "csv", "json"])
def test_every_type_of_column_can_be_printed(ask: Stepcast, form: str) -> None:
    for table in ("raw.run", "fit.fit", "pred.ledger", "report.accuracy", "raw.link"):
        answer = ask("sql", f"SELECT * FROM {table}", "--format", form)
        assert "run_id" in answer.printed or "prediction_id" in answer.printed


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELEC 1", "syntax error"),
        ("DELETE FROM raw.run", "the history is read-only"),
        ("SELECT 1; SELECT 2", "stepcast: expected one SQL statement, found 2; ask each"),
    ],
)
def test_bad_sql_is_one_line_and_exit_2(ask: Stepcast, statement: str, expected: str) -> None:
    assert expected in ask("sql", statement).refusal


def test_json_has_no_numbers_that_json_lacks(ask: Stepcast) -> None:
    sql = "SELECT 'nan'::DOUBLE AS a, ['inf'::DOUBLE, 1] AS b, {'c': '-inf'::FLOAT} AS d"
    answer = ask("sql", sql, "--format", "json").out
    assert json.loads(answer, parse_constant=pytest.fail) == [
        {"a": None, "b": [None, 1.0], "d": {"c": None}}
    ]
    assert ask("sql", sql, "--format", "csv").out == 'a,b,d\nNaN,"[null, 1.0]","{""c"": null}"\n'
    assert ask("sql", "SELECT 1 AS a WHERE false", "--format", "json").out == "[]\n"


def test_rows_are_printed_as_they_come(ask: Stepcast) -> None:
    sql = "SELECT range AS a FROM range(130_000)"
    lines = ask("sql", sql, "--format", "csv").out.splitlines()
    assert (lines[0], lines[-1], len(lines)) == ("a", "129999", 130_001)
    rows = ask("sql", sql, "--format", "json").content
    assert (rows[-1], len(rows)) == ({"a": 129_999}, 130_000)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT range AS a FROM range(120_000_000)", "a table of more than 2,000,000 values"),
        ("SELECT repeat('x', 3_000_000_000) AS a", "Out of Memory Error"),
    ],
)
def test_sql_takes_no_more_memory_than_it_may(ask: Stepcast, sql: str, expected: str) -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    assert expected in ask("sql", sql).refusal
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_accuracy_as_json_has_exactly_the_promised_keys(ask: Stepcast) -> None:
    board = json.loads(ask("accuracy", "--json").out)
    assert [list(row) for row in board] == [KEYS] * 2 * len(FORECASTERS)
    linear = next(row for row in board if row["system"] == "linear" and row["split"] != "seen")
    assert linear["n"] == 2
    assert linear["noise_floor"] is None
    assert linear["max_ape"] == pytest.approx(100 * (30 / (30 / 1.4 * 1.01) - 1))


def test_queries_take_parameters(ask: Stepcast) -> None:
    answer = ask("query", "accuracy", "--param", "study=paper", "--param", "repeat=1")
    assert f"{4 * len(FORECASTERS)} rows" in answer.printed
    assert "0 rows" in ask("query", "accuracy", "--param", "repeat=2").out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nothing"], "no query 'nothing'; the queries are accuracy, "),
        (["accuracy", "--param", "studyy=x"], "query accuracy has no parameter studyy"),
        (["accuracy", "--param", "study"], "--param 'study': expected name=value"),
    ],
)
def test_bad_queries_are_one_line_and_exit_2(
    ask: Stepcast, arguments: list[str], expected: str
) -> None:
    answer = ask("query", *arguments)
    assert answer.code == 2
    assert answer.err.startswith(f"stepcast: {expected}")


@pytest.mark.parametrize("arguments", [["sql", "SELECT 1"], ["accuracy"], ["query", "runs"]])
def test_an_empty_home_is_told(stepcast: Stepcast, home: Path, arguments: list[str]) -> None:
    assert f"in {home} yet; run `make demo` or `stepcast run`" in stepcast(*arguments).refusal
    assert list(home.iterdir()) == []


def test_queries_are_listed_with_their_questions(stepcast: Stepcast) -> None:
    answer = stepcast("query", "--format", "json")
    rows = {row["query"]: row for row in json.loads(answer.out)}
    assert rows["accuracy"]["question"].startswith("How far off was each prediction of a study")
    assert rows["accuracy"]["param"] == "metric, repeat, study"
    assert set(rows) == {file.stem for file in QUERIES.glob("*.sql")}


def test_every_column_of_what_probes_landed_is_explained(ask: Stepcast) -> None:
    rows = json.loads(ask("query", "columns", "--format", "json").out)
    raw = [row for row in rows if row["schema_name"] == "raw"]
    assert len(raw) > 100
    assert not [row for row in raw if not row["comment"]]
    only = ask("query", "columns", "--param", "table=raw.sample", "--format", "json")
    assert json.loads(only.out) == [row for row in raw if row["table_name"] == "sample"] != []
