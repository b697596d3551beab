"""What tests of importers share: reading a file, and checking frames against the raw tables."""

from pathlib import Path

import polars as pl
import pyarrow as pa

from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.formats import find_format
from warehouse.tables import SCHEMAS, conform


def imported(
    format_name: str, path: Path, options: ReaderOptions | None = None
) -> list[ImportedRun]:
    """Read a file, and check that every frame fits its raw table."""
    given = options or ReaderOptions()
    runs = list(find_format(format_name, given).read(path, given))
    for run in runs:
        for name, frame in run.tables.items():
            fitting(name, frame)
    return runs


def only(format_name: str, path: Path, options: ReaderOptions | None = None) -> ImportedRun:
    """Read a file of one run."""
    (run,) = imported(format_name, path, options)
    return run


def fitting(name: str, frame: pl.DataFrame) -> None:
    """Check a frame as landing does."""
    table = pa.table(frame)
    owner = pa.repeat(pa.scalar("r"), table.num_rows)
    conform(SCHEMAS[name], table.add_column(0, "run_id", owner), name)
