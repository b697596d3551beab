"""Figures of one model that is reused for many networks (Figs. 1, 2, 6 and 9 to 13 of PredictDDL).

The paper's measure is predicted / actual: closer to 1 is better.
"""

from collections.abc import Iterator

import polars as pl
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reports.plots import LINEAR, SERIES, blank, legend_below, styled

_INCHES_A_ROW = 0.22


@styled
def ratios(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot predicted / actual, a row for each network and a mark for each kind of forecast.

    `rows` has of, dnn and ratio.
    """
    figure, axes = blank(title)
    names = rows["dnn"].unique(maintain_order=True).to_list()
    figure.set_figheight(1.2 + _INCHES_A_ROW * len(names))
    axes.axvline(1, color=LINEAR, lw=1)
    for color, name, one in _series(rows):
        places = [names.index(dnn) for dnn in one["dnn"]]
        axes.plot(one["ratio"], places, "o", ms=5, alpha=0.8, color=color, label=name)
    axes.set_yticks(range(len(names)), labels=names)
    axes.set(xlabel="predicted / actual", xscale="log", ylim=(len(names) - 0.5, -0.5))
    _plain_logarithms(axes.xaxis)
    legend_below(figure, axes)
    return figure


@styled
def by_servers(rows: pl.DataFrame, what: str, label: str, title: str = "") -> Figure:
    """Plot a figure by number of servers, a line for each kind of forecast.

    `rows` has of, workers and the column `what`.
    """
    figure, axes = blank(title)
    if what == "ratio":
        axes.axhline(1, color=LINEAR, lw=1)
    for color, name, one in _series(rows):
        axes.plot(one["workers"], one[what], "-o", ms=4, color=color, label=name)
    axes.set(xlabel="servers", ylabel=label, xticks=rows["workers"].unique().sort().to_list())
    axes.set_ylim(bottom=0)
    legend_below(figure, axes)
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
    _plain_logarithms(axes.yaxis)
    legend_below(figure, axes)
    return figure


def _series(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    for place, ((name,), one) in enumerate(rows.group_by("of", maintain_order=True)):
        yield SERIES[place % len(SERIES)], str(name), one


def _plain_logarithms(axis: Axis) -> None:
    """Mark 1, 2, 5, 10 … on an axis of logarithms."""
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=20))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())
