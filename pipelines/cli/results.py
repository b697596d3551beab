"""The table that the main job ends with."""

from collections.abc import Mapping
from typing import Any

import polars as pl
from rich import box
from rich.table import Table

from forecasting.results import summary
from pipelines.cli.tables import console
from reports.wording import headline, interval, number, opening, percent


def print_results(rows: pl.DataFrame, metric: str, baseline: str) -> None:
    """Print a round's scenarios, predicted beside measured, and how wrong that was on average.

    Args:
        rows: of `forecasting.findings.standing.filled`.
        metric: says in words what was predicted.
        baseline: what stands beside it.
    """
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("scenario")
    for title in (
        "predicted",
        "interval",
        "measured",
        "error",
        "spread*",
        f"{baseline.split()[0]}'s error",
    ):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("split")
    for row in rows.to_dicts():
        table.add_row(
            row["label"],
            number(row["predicted"]),
            interval(row["low"], row["high"]),
            number(row["measured"]),
            percent(row["error_percent"], signed=True),
            percent(row["spread_percent"]),
            percent(row["linear_error_percent"], signed=True),
            _judged(row),
        )
    out, result = console(), summary(rows)
    out.print(opening(rows.height, result, baseline))
    out.print(table)
    out.print(f"Figures are {metric}. * within-run: between windows.")
    out.print(headline(result, baseline))


def _judged(row: Mapping[str, Any]) -> str:
    """Return how far off a judged scenario was; of others, which round's forecast is shown."""
    if row["split"] is not None:
        return str(row["split"]).replace("_", " ")
    earlier = row["forecast_round"]
    return "" if earlier is None else f"forecast of round {earlier}"
