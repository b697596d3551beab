"""Which orders of transfers were kept (sections 3.3 and 4.2, Figs. 18 and 19)."""

import polars as pl

from reports.html_table import Cell, table
from reports.wording import share

_HEAD = ("profile", "order", "kept", "pairs enforced", "as asked for", "steps")


def section(rows: pl.DataFrame) -> str:
    """Return the share of pairs in order of each profile, nothing if none was captured.

    `rows` are what `forecasting.captured.kept_orders` returns.
    """
    if rows.is_empty():
        return ""
    body = [
        [
            Cell(row["title"], is_number=False),
            Cell(row["order"], is_number=False),
            Cell(share(row["kept"])),
            Cell(f"{row['pairs']:,}"),
            Cell(share(row["as_requested"])),
            Cell(str(row["steps"])),
        ]
        for row in rows.to_dicts()
    ]
    return (
        "<h2>In which order tensors were sent</h2>"
        "<p>Share of the pairs of a step's downlink transfers whose first packets came in the "
        "order that was enforced, and in the order in which the worker asked for them; chance is "
        f"50 %. The framework enforces none.</p>{table(_HEAD, body)}"
    )
