"""Every scenario of a round: forecast, measured, and what a dollar trains."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.findings.about import About
from reports.html_table import Cell, table
from reports.wording import DASH, interval, number, percent

_MADE = {"sealed": "published", "before": "before its run", "after": "after the fact"}


def section(rows: pl.DataFrame, about: About, priced: pl.DataFrame | None) -> str:
    """Return a heading and a table, one row for each scenario.

    Args:
        rows: of `forecasting.findings.standing`.
        about: the round.
        priced: of `forecasting.findings.per_dollar`.
    """
    head = [
        "scenario", "predicted", "interval", "measured", "error", "within-run spread",
        about.baseline, f"error of {about.baseline}", "split", "forecast made",
    ]  # fmt: skip
    said = f"Figures are {about.metric}; brackets are 90 % prediction intervals. Error "
    said += "is (predicted − measured) / measured: above 0, the forecast was too high."
    if priced is not None:
        head[6:6] = ["per dollar, predicted", "per dollar, measured"]
        said += (
            " Per dollar: examples that are trained for a dollar, at the price of the nodes of the "
            "run, or as their types declare it."
        )
        names = {"predicted": "per_dollar", "measured": "measured_per_dollar"}
        rows = rows.join(priced.rename(names), on="scenario_id", how="left", maintain_order="left")
    if (rows["forecast_round"] != about.repeat).any():
        said += (
            " What was not profiled again in this round shows the forecast of an earlier round; "
            "runs of this one do not judge it."
        )
    body = [_cells(row, about.repeat, is_priced=priced is not None) for row in rows.to_dicts()]
    return f"<h2>All scenarios</h2><p>{said}</p>{table(head, body)}"


def _cells(row: Mapping[str, Any], repeat: int, *, is_priced: bool) -> list[Cell]:
    per_dollar = (row["per_dollar"], row["measured_per_dollar"]) if is_priced else ()
    return [
        Cell(row["label"], is_number=False),
        Cell(number(row["predicted"])),
        Cell(interval(row["low"], row["high"]) or DASH),
        Cell(number(row["measured"])),
        Cell(percent(row["error_percent"], signed=True)),
        Cell(percent(row["spread_percent"])),
        *(Cell(DASH if value is None else f"{value:,.0f}") for value in per_dollar),
        Cell(number(row["linear"])),
        Cell(percent(row["linear_error_percent"], signed=True)),
        Cell((row["split"] or DASH).replace("_", " "), is_number=False),
        Cell(_made(row, repeat), is_number=False),
    ]


def _made(row: Mapping[str, Any], repeat: int) -> str:
    """Return when a judged forecast was made; of others, for which round."""
    if row["made"] is not None:
        return _MADE[row["made"]]
    if row["forecast_round"] is None:
        return DASH
    if row["forecast_round"] != repeat:
        return f"for round {row['forecast_round']}"
    return "not judged"
