"""Table 1 of the ICPE'20 paper."""

import polars as pl

from reports.html_table import Cell, table
from reports.wording import share

_HEAD = ("network", "average", "median", "95th percentile", "maximum", "streams")
_STATISTICS = ("mean", "median", "p95", "maximum")


def section(rows: pl.DataFrame) -> str:
    """Return how wrong predicted ends of downlink streams are, nothing if none was captured.

    `rows` are what `forecasting.captured.end_time_errors` returns.
    """
    if rows.is_empty():
        return ""
    body = [
        [
            Cell(row["dnn"], is_number=False),
            *(Cell(share(row[name])) for name in _STATISTICS),
            Cell(f"{row['n']:,}"),
        ]
        for row in rows.to_dicts()
    ]
    return (
        "<h2>When tensors had arrived, forecast and captured</h2>"
        "<p>From the recorded starts of a step's transfers, a link that sends one stream after the "
        "other at the goodput of one flow ends each of them at some moment. |that − its last "
        "packet| / (time of its last packet since the step's start), as in Table 1 of the paper."
        f"</p>{table(_HEAD, body)}"
    )
