"""The chain names the first row that is not what was written."""

import re

import duckdb
import pyarrow.parquet as pq
import pytest

from tests.warehouse.conftest import Built, Maker, fill_fitted
from warehouse import ledger
from warehouse.connection import connect
from warehouse.landed_files import seal


def fill_chained(make: Maker) -> None:
    fill_fitted(make)
    make.forecast({2: 2, 3: 3, 4: 4})
    make.measure("m1", make.scenario(2), [2.5], minute=5)
    make.warehouse.load()


@pytest.fixture
def chained(built: Built, fresh: Maker) -> Maker:
    """Return a maker with, in this order: run p1, its fit, predictions of W = 2, 3, 4, run m1."""
    return built(fill_chained, fresh.home)


def broken(make: Maker, tampering: str = "SELECT 1") -> str | None:
    with connect(make.main) as connection:
        connection.execute(tampering)
        return ledger.verify(connection)


def test_rows_are_numbered_over_all_tables_in_the_order_they_came(chained: Maker) -> None:
    chained.warehouse.load()
    chained.warehouse.record(fits=[chained.fit("p1")])
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


INSERTED = (
    "INSERT INTO pred.ledger SELECT * REPLACE ('forged' AS prediction_id, {} AS sequence) "
    "FROM pred.ledger WHERE sequence = 4"
)


MOVED = (
    "DELETE FROM pred.ledger WHERE sequence = 3; "
    "UPDATE pred.ledger SET sequence = sequence - 1; "
    "UPDATE meta.loaded SET sequence = 5 WHERE run_id = 'm1'; UPDATE meta.chain SET sequence = 5"
)


@pytest.mark.parametrize(
    ("tampering", "expected"),
    [
        ("UPDATE pred.ledger SET value = 2.5 WHERE sequence = 3", "row 3 .*pred.ledger .* changed"),
        ("UPDATE pred.ledger SET low = 0 WHERE sequence = 5", "row 5 .* was changed"),
        ("UPDATE pred.ledger SET made_at = now() WHERE sequence = 4", "row 4 .* was changed"),
        ("UPDATE pred.ledger SET code_version = '2' WHERE sequence = 4", "row 4 .* was changed"),
        ("UPDATE fit.fit SET run_ids = ['p1', 'm1']", "row 2 .*fit.fit .* was changed"),
        ("UPDATE meta.loaded SET run_id = 'p2' WHERE run_id = 'p1'", "row 1 .*loaded p2.*changed"),
        ("DELETE FROM pred.ledger WHERE sequence = 4", "row 4 .* was removed"),
        ("DELETE FROM meta.loaded WHERE run_id = 'm1'", "row 6 .* was removed"),
        ("DELETE FROM meta.loaded WHERE run_id = 'p1'", "row 1 .* was removed"),
        ("DELETE FROM pred.ledger", "row 3 .* was removed"),
        (MOVED, "row 3 .*pred.ledger "),
        (INSERTED.format(4), "row 4 .*pred.ledger "),
        (INSERTED.format(7), "row 7 .*pred.ledger forged"),
        ("UPDATE pred.ledger SET sequence = if(sequence = 4, 4, 8 - sequence)", "row 3 .*pred.led"),
        # Moving a run would let a prediction be judged by what it saw.
        ("UPDATE meta.loaded SET sequence = 7 WHERE run_id = 'p1'", "row 1 "),
    ],
)
def test_the_first_row_that_is_another_is_named(
    chained: Maker, tampering: str, expected: str
) -> None:
    assert re.match(expected, broken(chained, tampering) or "")


def test_loading_a_changed_run_again_leaves_the_chain_whole(chained: Maker) -> None:
    chained.land(chained.run("r1", None, "profile"), None)
    chained.warehouse.load()
    file = chained.home / "landing" / "r1" / "run.parquet"
    pq.write_table(pq.read_table(file), file, compression="gzip")
    seal(file.parent)
    assert chained.warehouse.load().loaded == ("r1",)
    assert broken(chained) is None
