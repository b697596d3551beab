"""Simulated steps in the warehouse: no measurements, and no part of the ledger."""

import duckdb
import polars as pl

from warehouse import journal
from warehouse.records import BadInput


def record_intervals(
    connection: duckdb.DuckDBPyConnection, fit_id: str, subject_id: str, intervals: pl.DataFrame
) -> None:
    """Keep what ran in simulated steps, in place of what was kept of the same fit and subject.

    `intervals` has the columns of pred.synthetic_interval but for these two.

    Raises:
        BadInput: the fit is not recorded.
    """
    known = connection.execute("SELECT 1 FROM fit.fit WHERE fit_id = ?", [fit_id]).fetchone()
    if known is None:
        raise BadInput(f"these steps name fit {fit_id}, which is not recorded; record it first")
    rows = intervals.with_columns(fit_id=pl.lit(fit_id), subject_id=pl.lit(subject_id))
    with journal.entry(connection) as entry:
        entry.insert("pred.synthetic_interval", rows.to_arrow())
