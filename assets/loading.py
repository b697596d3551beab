"""Bringing what has landed into the warehouse."""

import polars as pl
from dagster import MaterializeResult

from assets.metadata import of_frame
from studies.progress import Progress
from studies.rounds import Round
from warehouse.records import Purpose
from warehouse.warehouse import Warehouse


def load_landed(
    round_: Round, warehouse: Warehouse, purpose: Purpose, progress: Progress
) -> MaterializeResult:
    """Load all landed runs; describe those of one purpose in the study of `round_`."""
    report = warehouse.load()
    for one in report.quarantined:
        progress.warn(f"landed run {one.run_id} was set aside in {one.folder}: {one.reason}")
    runs = warehouse.query("runs", study=round_.study.name).filter(pl.col("purpose") == purpose)
    return MaterializeResult(
        metadata={
            **of_frame(runs, round_),
            "newly_loaded": len(report.loaded),
            "set_aside": len(report.quarantined),
        }
    )
