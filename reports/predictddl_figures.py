"""Figures and words of one model that is reused for many networks (Figs. 1, 2, 6, 9 to 13).

The paper's measure is predicted / actual: closer to 1 is better.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from forecasting.findings.cross_validation import FAMILIES, RANDOM
from forecasting.findings.predictddl import Reuse
from reports.html import Cell, caption_figure
from reports.plots import LINEAR, SERIES, blank, legend_below, styled
from reports.wording import DASH, percent

MOST_RATIO = 100.0
"""Predicted / actual, or its inverse, that is drawn; else what errs little could not be told."""
LEAST_PERCENT = 0.1
"""Of errors by number of servers; the scale is one of logarithms."""
_APART = 0.15
"""How far kinds of forecasts stand beside each other, in servers."""
_INCHES_A_ROW = 0.22
_SHORT = 5.0
"""An axis whose upper end is less than so many times the lower one may have one of 1, 2 and 5."""
_MANY_DECADES = 3.5
"""Of an axis, on which 2 and 5 would be too much."""


@styled
def ratios(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot predicted / actual, a row for each network and a mark for each kind of forecast.

    `rows` has of, dnn and ratio; what is beyond `MOST_RATIO` times either way stands at the edge.
    """
    figure, axes = blank(title)
    names = rows["dnn"].unique(maintain_order=True).to_list()
    figure.set_figheight(1.2 + _INCHES_A_ROW * len(names))
    axes.axvline(1, color=LINEAR, lw=1)
    for color, name, one in _series(rows):
        places = [names.index(dnn) for dnn in one["dnn"]]
        shown = one["ratio"].clip(1 / MOST_RATIO, MOST_RATIO)
        axes.plot(shown, places, "o", ms=5, alpha=0.8, color=color, label=name)
    axes.set_yticks(range(len(names)), labels=names)
    axes.set(xlabel="predicted / actual", xscale="log", ylim=(len(names) - 0.5, -0.5))
    _plain_logarithms(axes.xaxis)
    legend_below(figure, axes)
    return figure


@styled
def by_servers(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot absolute errors by number of servers: a mark for each network, a bar over all of them.

    `rows` has of, dnn, workers and error_percent; a line for each kind of forecast goes through
    means of networks. What is below `LEAST_PERCENT` stands at the edge.
    """
    figure, axes = blank(title)
    kinds = list(_series(rows))
    for place, (color, name, one) in enumerate(kinds):
        beside = _APART * (place - (len(kinds) - 1) / 2)
        errors = one.with_columns(pl.col("error_percent").clip(lower_bound=LEAST_PERCENT))
        axes.plot(
            errors["workers"] + beside,
            errors["error_percent"],
            "o",
            ms=4,
            alpha=0.6,
            color=color,
            label=name,
        )
        of_all = (
            errors.group_by("workers")
            .agg(
                mean=pl.col("error_percent").mean(),
                least=pl.col("error_percent").min(),
                most=pl.col("error_percent").max(),
            )
            .sort("workers")
        )
        at = of_all["workers"] + beside
        axes.vlines(at, of_all["least"], of_all["most"], color=color, lw=1)
        axes.plot(at, of_all["mean"], "-", lw=1, color=color)
    servers = rows["workers"].unique().sort().to_list()
    axes.set(xlabel="servers", ylabel="mean absolute error, %", yscale="log", xticks=servers)
    axes.set_xlim(servers[0] - 0.5, servers[-1] + 0.5)
    _plain_logarithms(axes.yaxis)
    legend_below(figure, axes)
    return figure


@styled
def plot_panels(rows: pl.DataFrame, of: str, what: str, label: str, title: str = "") -> Figure:
    """Plot a figure by number of servers in panels side by side, a line for each kind of forecast.

    `rows` has of, workers and the columns `of`, which tells panels apart, and `what`.
    """
    names = rows[of].unique(maintain_order=True).to_list()
    figure = Figure(figsize=(6.0, 2.8), layout="constrained")
    figure.suptitle(title, fontsize=11)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, panel in zip(panels, names, strict=True):
        for place, (color, name, one) in enumerate(_series(rows.filter(pl.col(of) == panel))):
            # Later lines are thinner, so that equal ones show.
            width = max(3.0 - 1.5 * place, 1.0)
            axes.plot(one["workers"], one[what], "-o", ms=4, lw=width, color=color, label=name)
        axes.set(xlabel="servers", xticks=rows["workers"].unique().sort().to_list())
        axes.set_title(panel, fontsize=9)
        axes.set_ylim(bottom=0)
    panels[0].set_ylabel(label)
    legend_below(figure, panels[0])
    return figure


@styled
def by_workloads(rows: pl.DataFrame, what: str, label: str, title: str = "") -> Figure:
    """Plot a figure by number of workloads on a scale of logarithms, a line for each system.

    `rows` has of, workloads and the column `what`; where it is NULL there is no point.
    """
    figure, axes = blank(title)
    for color, name, one in _series(rows.drop_nulls(what)):
        axes.plot(one["workloads"], one[what], "-o", ms=4, color=color, label=name)
    axes.set(xlabel="workloads", ylabel=label, yscale="log")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    _plain_logarithms(axes.yaxis)
    legend_below(figure, axes)
    return figure


def _series(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    for place, ((name,), one) in enumerate(rows.group_by("of", maintain_order=True)):
        yield SERIES[place % len(SERIES)], str(name), one


def _plain_logarithms(axis: Axis) -> None:
    """Mark 1, 2, 5, 10 … on an axis of logarithms; fewer on a long one, and more on a short one."""
    low, high = axis.get_view_interval()
    subs: tuple[float, ...] = (1.0, 2.0, 5.0)
    if high < low * _SHORT:
        subs = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)
    elif high >= low * 10**_MANY_DECADES:
        subs = (1.0,)
    axis.set_major_locator(LogLocator(subs=subs, numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


# How forecasts of reused models read in tables, and look network by network.


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
    """Return the cells of `HEAD` of a row of `forecasting.findings.cross_validation.Contest`."""
    return [Cell(str(row["n"])), Cell(f"{row['ratio']:.2f}"), Cell(percent(row["error_percent"]))]


def noise(found: Reuse) -> str:
    """Return the sentence about the noise floor."""
    floor = percent(found.noise_floor) if found.noise_n else DASH
    n = f"n = {found.noise_n} scenarios in several rounds"
    return f"Noise floor of what was judged: {floor} ({n})."


def select_drawn(rows: pl.DataFrame, by: str) -> pl.DataFrame:
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
    most = MOST_RATIO
    beyond = rows.filter(~pl.col("ratio").is_between(1 / most, most)).height
    at_edge = (
        f" At the edge stand {beyond} beyond {most:g} times or a {most:g}th." if beyond else ""
    )
    said = f"Mean of each network. Closer to 1 is better.{at_edge}"
    return caption_figure(ratios(rows), described, said)
