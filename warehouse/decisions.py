"""What systems and rules of thumb would have rented: kept beside the ledger, to be judged."""

import duckdb
import polars as pl

from warehouse import journal


def record_decisions(connection: duckdb.DuckDBPyConnection, rows: pl.DataFrame) -> int:
    """Keep decisions, in place of what was kept of the same questions; return how many.

    Args:
        connection: to the warehouse.
        rows: with the columns of pred.decision.
    """
    with journal.entry(connection) as entry:
        entry.insert("pred.decision", rows.to_arrow())
    return rows.height
