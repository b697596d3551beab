"""How much links carry."""

import polars as pl

from reports.html_table import Cell, table
from reports.wording import link_speed

_HEAD = ("shaped to", "direction", "flows", "goodput", "trials")


def section(rows: pl.DataFrame | None) -> str:
    """Return a table of goodput; `rows` are what `forecasting.findings.goodput` returns."""
    if rows is None:
        return "<p>No links were probed.</p>"
    body = [
        [
            Cell(link_speed(row["link_mbps"]), is_number=False),
            Cell(row["direction"], is_number=False),
            Cell(str(row["flows"])),
            Cell(f"{row['mbps']:.1f} Mb/s"),
            Cell(str(row["trials"])),
        ]
        for row in rows.to_dicts()
    ]
    return table(_HEAD, body)
