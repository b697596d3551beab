"""The table that the main job ends with."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.results import summary
from pipelines.cli.tables import Column, print_rows, print_text
from reports.wording import headline, interval, number, opening, percent


def print_results(rows: pl.DataFrame, metric: str, baseline: str) -> None:
    """Print a round's scenarios, predicted beside measured, and how wrong that was on average.

    Intervals and the baseline have columns where there are any.

    Args:
        rows: of `forecasting.findings.standing.filled`.
        metric: says in words what was predicted.
        baseline: what stands beside it.
    """
    theirs = f"{baseline.split()[0]}'s error"
    columns = {
        "predicted": [number(one) for one in rows["predicted"]],
        "interval": [interval(*ends) for ends in rows.select("low", "high").iter_rows()],
        "measured": [number(one) for one in rows["measured"]],
        "error": [percent(one, signed=True) for one in rows["error_percent"]],
        "spread*": [percent(one) for one in rows["spread_percent"]],
        theirs: [percent(one, signed=True) for one in rows["linear_error_percent"]],
    }
    for title, needed in (("interval", "low"), (theirs, "linear")):
        if rows[needed].is_null().all():
            del columns[title]
    shown = [
        Column("scenario", is_key=True, is_heading=True),
        *(Column(title, is_key=title != theirs, is_number=True) for title in columns),
        Column("split"),
    ]
    judged = map(_judged, rows.to_dicts())
    cells = list(zip(rows["label"], *columns.values(), judged, strict=True))
    result = summary(rows)
    print_text(opening(rows.height, result, baseline))
    print_rows(shown, cells)
    print_text(f"Figures are {metric}. * within-run: between windows.")
    print_text(headline(result, baseline))


def _judged(row: Mapping[str, Any]) -> str:
    """Return how far off a judged scenario was; of others, which round's forecast is shown."""
    if row["split"] is not None:
        return str(row["split"]).replace("_", " ")
    earlier = row["forecast_round"]
    return "" if earlier is None else f"forecast of round {earlier}"
