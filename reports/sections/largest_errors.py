"""Where the largest errors of a round come from, as a table of the report."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.findings.largest_errors import CAUSES
from reports.html_table import Cell, table
from reports.wording import percent

_HEADING = (
    "<h2>Where the largest errors come from</h2>"
    "<p>A worker's time from one step to the next, predicted and measured, and what their "
    "difference is due to: as far as steps of a worker alone differ from its profile, to compute, "
    "wire and overlap; the rest, which other workers add, is queueing. A positive difference is a "
    "time predicted too long.</p>"
)
_HEAD = (
    "scenario",
    "error",
    "predicted",
    "measured",
    "difference",
    "compute",
    "wire",
    "overlap",
    "queueing",
)


def section(rows: pl.DataFrame | None) -> str:
    """Return a heading and the table in HTML, nothing where errors cannot be told apart.

    `rows` are what `forecasting.findings.largest_errors` returns.
    """
    if rows is None:
        return ""
    if rows.is_empty():
        return f"{_HEADING}<p>No scenario with two or more like workers has been judged.</p>"
    return _HEADING + table(_HEAD, [_cells(row) for row in rows.to_dicts()])


def _cells(row: Mapping[str, Any]) -> list[Cell]:
    signed = [row["predicted_s"] - row["measured_s"], *(row[cause] for cause in CAUSES)]
    return [
        Cell(row["label"], is_number=False),
        Cell(percent(row["error_percent"], signed=True)),
        Cell(f"{1e3 * row['predicted_s']:.0f} ms"),
        Cell(f"{1e3 * row['measured_s']:.0f} ms"),
        *(Cell(f"{1e3 * seconds:+.0f} ms".replace("-", "−")) for seconds in signed),
    ]
