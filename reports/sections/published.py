"""How wrong forecasts were that had been published before anybody measured."""

import polars as pl

from reports.html_table import Cell, table
from reports.wording import DASH, percent

_SAID = (
    "<p>These forecasts were written to a file before the first of the runs that judge them began. "
    "They are judged as they were published, by all runs of the study that began later, whatever "
    "later code forecasts. Errors are absolute.</p>"
)
_HEAD = (
    "system", "split", "mean error", "median", "largest", "inside the interval", "noise floor",
    "forecasts", "published, UTC", "first measured, UTC",
)  # fmt: skip
_ERRORS = ("mape", "median_ape", "max_ape", "inside_percent", "noise_floor")


def section(rows: pl.DataFrame | None) -> str:
    """Return a table of published forecasts, nothing where none was published.

    `rows` are what query `sealed` says of the study.
    """
    if rows is None or rows.is_empty():
        return ""
    body = [
        [
            Cell(row["system"], is_number=False),
            Cell((row["split"] or DASH).replace("_", " "), is_number=False),
            *(Cell(percent(row[name])) for name in _ERRORS),
            Cell(str(row["n"])),
            *(
                Cell(f"{row[name]:%Y-%m-%d %H:%M}", is_number=False)
                for name in ("sealed_at", "first_measured_at")
            ),
        ]
        for row in rows.to_dicts()
    ]
    return f"<h2>Forecasts that were published before measuring</h2>{_SAID}{table(_HEAD, body)}"
