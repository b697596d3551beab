"""Sensitivity of predictions to WIN ± 50 % (section 3.2.2 of the ICPE'20 paper)."""

from collections.abc import Sequence

import polars as pl

from forecasting.findings.windows import FACTORS, Sensitivity
from reports.html_table import Cell, table
from reports.wording import number, percent

_HEAD = (
    "profile",
    "WIN",
    "W",
    "not suspended, steps/s",
    *(f"WIN × {factor:g}" for factor in FACTORS),
)


def section(found: Sequence[Sensitivity]) -> str:
    """Return predictions under the paper's rule; nothing if no packets were captured."""
    if not found:
        return ""
    body = [row for one in found for row in _rows(one)]
    return (
        "<h2>What another flow-control window would change</h2>"
        "<p>Predictions let no stream be suspended. What they would be under the paper's rule, "
        "with the window that the worker announced first (or 1 MiB, hypothetical, where every "
        "tensor is shorter), and half of it more or less; change against the first column. Nothing "
        f"here is in the ledger.</p>{table(_HEAD, body)}"
    )


def _rows(sensitivity: Sensitivity) -> list[list[Cell]]:
    rows = []
    for one in sensitivity.rows.partition_by("workers", maintain_order=True):
        changed = one.filter(pl.col("window") != "none")
        window, window_bytes = changed.select("window", "window_bytes").row(0)
        rows.append(
            [
                Cell(sensitivity.title, is_number=False),
                Cell(f"{window_bytes / 2**20:g} MiB, {window}", is_number=False),
                Cell(str(one["workers"][0])),
                Cell(number(one["value"][0])),
                *(Cell(percent(change, signed=True)) for change in changed["change_percent"]),
            ]
        )
    return rows
