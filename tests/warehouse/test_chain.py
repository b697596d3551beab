"""The chain names the first row that is not what was written."""

from typing import TYPE_CHECKING

import duckdb
import pyarrow.parquet as pq
import pytest

from warehouse import ledger
from warehouse.chain import BrokenRow
from warehouse.connection import connect
from warehouse.landed_files import seal

if TYPE_CHECKING:
    from tests.warehouse.conftest import Built, Maker


def fill_chained(make: "Maker") -> None:
    make.profile("p1", make.scenario(1))
    make.warehouse.load()
    fit = make.fit("p1")
    make.warehouse.record_fit(fit)
    make.warehouse.record_predictions(
        [make.prediction(fit, make.scenario(workers), workers) for workers in (2, 3, 4)]
    )
    make.measure("m1", make.scenario(2), [2.5], minute=5)
    make.warehouse.load()


@pytest.fixture
def chained(built: "Built", fresh: "Maker") -> "Maker":
    """Return a maker with, in this order: run p1, its fit, predictions of W = 2, 3, 4, run m1."""
    return built(fill_chained, fresh.home)


def broken(make: "Maker", *tampering: str) -> BrokenRow | None:
    with connect(make.home / "warehouse.duckdb") as connection:
        for statement in tampering:
            connection.execute(statement)
        return ledger.verify(connection)


def test_rows_are_numbered_over_all_tables_in_the_order_they_came(chained: "Maker") -> None:
    chained.warehouse.load()
    chained.warehouse.record_fit(chained.fit("p1"))
    numbers = chained.rows(
        "SELECT sequence, run_id AS what FROM meta.loaded UNION ALL "
        "SELECT sequence, system FROM fit.fit UNION ALL "
        "SELECT sequence, value::VARCHAR FROM pred.ledger ORDER BY sequence"
    )
    names = ["p1", "async_sgd", "2.0", "3.0", "4.0", "m1"]
    assert numbers.rows() == list(enumerate(names, start=1))
    assert broken(chained) is None


def test_an_empty_ledger_is_sound(connection: duckdb.DuckDBPyConnection) -> None:
    assert ledger.verify(connection) is None


@pytest.mark.parametrize(
    ("tampering", "sequence", "table"),
    [
        ("UPDATE pred.ledger SET value = 2.5 WHERE sequence = 3", 3, "pred.ledger"),
        ("UPDATE pred.ledger SET low = 0 WHERE sequence = 5", 5, "pred.ledger"),
        ("UPDATE pred.ledger SET made_at = now() WHERE sequence = 4", 4, "pred.ledger"),
        ("UPDATE pred.ledger SET code_version = 'v2' WHERE sequence = 4", 4, "pred.ledger"),
        ("UPDATE fit.fit SET run_ids = ['p1', 'm1']", 2, "fit.fit"),
        ("UPDATE meta.loaded SET run_id = 'p2' WHERE run_id = 'p1'", 1, "meta.loaded"),
    ],
)
def test_a_changed_row_is_named(
    chained: "Maker", tampering: str, sequence: int, table: str
) -> None:
    row = broken(chained, tampering)
    assert row is not None
    assert (row.sequence, row.table) == (sequence, table)
    assert "was changed" in row.reason
    assert f"row {sequence} of the ledger ({table} {row.key})" in row.text


@pytest.mark.parametrize(
    ("tampering", "sequence"),
    [
        ("DELETE FROM pred.ledger WHERE sequence = 4", 4),
        ("DELETE FROM meta.loaded WHERE run_id = 'm1'", 6),
        ("DELETE FROM meta.loaded WHERE run_id = 'p1'", 1),
        ("DELETE FROM pred.ledger", 3),
    ],
)
def test_a_removed_row_is_named(chained: "Maker", tampering: str, sequence: int) -> None:
    row = broken(chained, tampering)
    assert row is not None
    assert (row.sequence, "was removed" in row.reason) == (sequence, True)


def test_a_removal_with_the_numbers_closed_up_is_found(chained: "Maker") -> None:
    row = broken(
        chained,
        "DELETE FROM pred.ledger WHERE sequence = 3",
        "UPDATE pred.ledger SET sequence = sequence - 1",
        "UPDATE meta.loaded SET sequence = 5 WHERE run_id = 'm1'",
        "UPDATE meta.chain SET sequence = 5",
    )
    assert row is not None
    assert (row.sequence, row.table) == (3, "pred.ledger")


def test_an_inserted_row_is_named(chained: "Maker") -> None:
    copy = "INSERT INTO pred.ledger SELECT * REPLACE ('forged' AS prediction_id, {} AS sequence) "
    source = "FROM pred.ledger WHERE sequence = 4"
    taken = broken(chained, copy.format(4) + source)
    assert taken is not None
    assert (taken.sequence, taken.table) == (4, "pred.ledger")
    beyond = broken(
        chained,
        "DELETE FROM pred.ledger WHERE prediction_id = 'forged'",
        copy.format(7) + source,
    )
    assert beyond is not None
    assert (beyond.sequence, beyond.key) == (7, "forged")


def test_reordered_rows_are_found_at_the_first_of_them(chained: "Maker") -> None:
    row = broken(
        chained,
        "UPDATE pred.ledger SET sequence = CASE sequence WHEN 3 THEN 5 WHEN 5 THEN 3 ELSE 4 END",
    )
    assert row is not None
    assert (row.sequence, row.table) == (3, "pred.ledger")


def test_a_run_moved_behind_a_prediction_is_found(chained: "Maker") -> None:
    """Moving a run in the order of things would let a prediction be judged by what it saw."""
    row = broken(
        chained,
        "UPDATE meta.loaded SET sequence = 7 WHERE run_id = 'p1'",
    )
    assert row is not None
    assert row.sequence == 1


def test_loading_a_changed_run_again_leaves_the_chain_whole(chained: "Maker") -> None:
    chained.land(chained.run("r1", None, "profile"), None)
    chained.warehouse.load()
    file = chained.home / "landing" / "r1" / "run.parquet"
    pq.write_table(pq.read_table(file), file, compression="gzip")
    seal(file.parent)
    assert chained.warehouse.load().loaded == ("r1",)
    assert broken(chained) is None
