"""Pictures of rows, as a mark says."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from forecasting.findings.figure import Mark
from reports.plots import SERIES, blank, coloured, legend_below, styled

_INCHES_A_NAME = 0.22


@styled
def draw(mark: Mark, rows: pl.DataFrame, title: str = "") -> Figure:
    """Draw rows as a mark says; text on the vertical axis has a place for each of its values."""
    figure, axes = blank(title)
    first = mark.y[0]
    names = (
        rows[first].unique(maintain_order=True).to_list() if rows.schema[first] == pl.String else []
    )
    groups = rows.group_by(mark.of, maintain_order=True) if mark.of else [((), rows)]
    for colour, (key, part) in coloured(groups):
        label = str(key[0]) if key else first.replace("_", " ")
        if mark.kind == "spans":
            places = _places(part[first], names)
            thick = 9 if names else 2
            axes.hlines(places, part[mark.x], part[mark.to], colour, lw=thick, label=label)
            continue
        for number, column in enumerate(mark.y):
            plot = _plots(axes, mark, number, len(mark.of) > 0)
            label_of = label if number == 0 else "" if mark.of else column.replace("_", " ")
            known = part.drop_nulls(column)
            colour_of = colour if mark.of else SERIES[number]
            plot(known[mark.x], _places(known[column], names), color=colour_of, label=label_of)
    if names:
        figure.set_figheight(1.2 + _INCHES_A_NAME * len(names))
        axes.set_yticks(range(len(names)), labels=names)
    if names or mark.kind == "spans":
        axes.invert_yaxis()
    axes.set(
        xlabel=mark.x.replace("_", " "),
        ylabel="" if names else " and ".join(mark.y).replace("_", " "),
        xscale="log" if "x" in mark.log else "linear",
    )
    if "y" in mark.log:
        axes.set_yscale("log")
    legend_below(figure, axes)
    return figure


def _plots(axes: Any, mark: Mark, number: int, has_series: bool) -> Callable[..., Any]:
    """Return what draws a column: the first as the mark says, later ones dashed or as points."""
    if mark.kind == "step":
        return partial(axes.step, where="post")
    if mark.kind == "points":
        return partial(axes.plot, linestyle="", marker="o", ms=5, alpha=0.8)
    if number == 0:
        return (
            partial(axes.plot, marker="o", ms=4) if has_series else partial(axes.plot, marker="o")
        )
    return partial(axes.plot, linestyle="--", marker="s", ms=4, alpha=0.8)


def _places(values: pl.Series, names: Sequence[str]) -> pl.Series:
    """Return where values stand: text at the place of its name."""
    if not names:
        return values
    return values.replace_strict(list(names), range(len(names)), return_dtype=pl.Int64)
