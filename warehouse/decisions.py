"""What systems and rules of thumb would have rented: kept beside the ledger, to be judged."""

import duckdb
import polars as pl

from warehouse.connection import transaction


def record_decisions(connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame) -> int:
    """Keep decisions, in place of what was kept of the same questions; return how many.

    Args:
        connection: to the warehouse.
        rows: with the columns of pred.decision.
    """
    connection.register("incoming", rows.to_arrow())
    try:
        with transaction(connection):
            connection.execute(
                "DELETE FROM pred.decision WHERE question_id IN (SELECT question_id FROM incoming)"
            )
            connection.execute("INSERT INTO pred.decision BY NAME SELECT * FROM incoming")
    finally:
        connection.unregister("incoming")
    return rows.height
