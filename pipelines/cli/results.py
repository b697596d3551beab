"""The table that the main job ends with."""

from collections.abc import Callable, Mapping
from typing import Any

import polars as pl
from rich import box
from rich.table import Table

from forecasting.results import summary
from pipelines.cli.tables import console
from reports.wording import headline, interval, number, opening, percent


def print_results(rows: pl.DataFrame, metric: str, baseline: str) -> None:
    """Print a round's scenarios, predicted beside measured, and how wrong that was on average.

    Intervals and the baseline have columns where there are any.

    Args:
        rows: of `forecasting.findings.standing.filled`.
        metric: says in words what was predicted.
        baseline: what stands beside it.
    """
    columns: list[tuple[str, str, Callable[[Mapping[str, Any]], str]]] = [
        ("predicted", "", lambda row: number(row["predicted"])),
        ("interval", "low", lambda row: interval(row["low"], row["high"])),
        ("measured", "", lambda row: number(row["measured"])),
        ("error", "", lambda row: percent(row["error_percent"], signed=True)),
        ("spread*", "", lambda row: percent(row["spread_percent"])),
        (
            f"{baseline.split()[0]}'s error",
            "linear",
            lambda row: percent(row["linear_error_percent"], signed=True),
        ),
    ]
    shown = [
        (title, text)
        for title, needed, text in columns
        if not needed or rows[needed].is_not_null().any()
    ]
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("scenario")
    for title, _ in shown:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("split")
    for row in rows.to_dicts():
        table.add_row(row["label"], *(text(row) for _, text in shown), _judged(row))
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
