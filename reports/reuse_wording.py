"""How forecasts of reused models read in tables, and look network by network."""

from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.findings.left_out import FAMILIES, RANDOM
from forecasting.findings.reuse import Reuse
from reports import reuse_plots
from reports.figure_html import captioned
from reports.html_table import Cell
from reports.wording import DASH, percent

HEAD = ("n", "predicted / actual", "mean absolute error")
"""Of the cells of `figures`: the paper's measure beside ours."""
DRAWN = ("predictddl", "predictddl_paper", "log_linear", "ernest_pooled", "ernest")
"""Systems whose forecasts are drawn; tables have all."""
_JUDGED_BY = {
    RANDOM: "random parts, left out in turn",
    FAMILIES: "families, left out in turn",
}


def judged_by(split: str) -> str:
    """Return what a forecast had not seen, in words."""
    return _JUDGED_BY.get(split, split)


def figures(row: Mapping[str, Any]) -> list[Cell]:
    """Return the cells of `HEAD` of a row of `forecasting.findings.left_out.Contest`."""
    return [Cell(str(row["n"])), Cell(f"{row['ratio']:.2f}"), Cell(percent(row["error_percent"]))]


def noise(found: Reuse) -> str:
    """Return the sentence about the noise floor."""
    floor = percent(found.noise_floor) if found.noise_n else DASH
    n = f"n = {found.noise_n} scenarios in several rounds"
    return f"Noise floor of what was judged: {floor} ({n})."


def drawn(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    """Return the rows of `DRAWN` in its order, so that colours are the same in all figures.

    Args:
        rows: with systems.
        by: the column that has them.
    """
    place = pl.col(by).replace_strict(DRAWN, range(len(DRAWN)), return_dtype=pl.Int32)
    return rows.filter(pl.col(by).is_in(DRAWN)).sort(place, maintain_order=True)


def ratios_of(rows: pl.DataFrame, where: str) -> str:
    """Return predicted / actual of each network as a figure; `where` says what was not seen."""
    described = f"Predicted over actual epochs by network, {where}"
    most = reuse_plots.MOST_RATIO
    beyond = rows.filter(~pl.col("ratio").is_between(1 / most, most)).height
    at_edge = (
        f" At the edge stand {beyond} beyond {most:g} times or a {most:g}th." if beyond else ""
    )
    said = f"Mean of each network. Closer to 1 is better.{at_edge}"
    return captioned(reuse_plots.ratios(rows), described, said)
