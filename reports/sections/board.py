"""All systems of a study where all of them said something, and how much each covers."""

import polars as pl

from reports.html_table import Cell, table
from reports.wording import percent

_HEAD = (
    "system",
    "scenarios of all",
    "mean absolute error",
    "median",
    "largest",
    "scenarios of its own",
    "covered",
    "error on these",
    "noise floor",
)
_SAID = (
    "<p>Systems are compared on the scenarios that all of them forecast, of all rounds; beside it "
    "stands how many scenarios each forecasts at all, and how wrong it is there. Systems of other "
    "studies stand here where they forecast every scenario that was judged in this one, on the "
    "same host. What was measured while the host was busy does not count.</p>"
)


def section(board: pl.DataFrame | None) -> str:
    """Return the board; nothing where fewer than two systems were judged.

    Args:
        board: rows of query `board`, of one study.
    """
    if board is None or board.height < 2:
        return ""
    body = [
        [
            Cell(row["system"], is_number=False),
            Cell(str(row["n"])),
            *(Cell(percent(row[name])) for name in ("mape", "median_ape", "max_ape")),
            Cell(str(row["covered"])),
            *(Cell(percent(row[name])) for name in ("covered_percent", "covered_mape")),
            Cell(f"{percent(row['noise_floor'])} (n = {row['noise_n']})"),
        ]
        for row in board.iter_rows(named=True)
    ]
    return f"<h2>All systems, on the scenarios that all forecast</h2>{_SAID}{table(_HEAD, body)}"
