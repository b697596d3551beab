"""Figures of one model that is reused for many networks (Figs. 1, 2, 6 and 9 to 13 of PredictDDL).

The paper's measure is predicted / actual: closer to 1 is better.
"""

from collections.abc import Iterator

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from reports.plots import LINEAR, SERIES, blank, legend_below, styled

_INCHES_A_ROW = 0.22


@styled
def ratios(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot predicted / actual, a row for each network and a mark for each kind of forecast.

    `rows` has of, dnn and ratio.
    """
    figure, axes = blank(title)
    names = rows["dnn"].unique(maintain_order=True).to_list()
    figure.set_figheight(max(1.6, 1.0 + _INCHES_A_ROW * len(names)))
    axes.axvline(1, color=LINEAR, lw=1)
    for color, name, one in _series(rows):
        places = [names.index(dnn) for dnn in one["dnn"]]
        axes.plot(one["ratio"], places, "o", ms=5, alpha=0.8, color=color, label=name)
    axes.set_yticks(range(len(names)), labels=names)
    axes.invert_yaxis()
    axes.set(xlabel="predicted / actual", xscale="log")
    axes.xaxis.set_major_formatter(FuncFormatter(_plain))
    axes.xaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
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
    axes.yaxis.set_major_formatter(FuncFormatter(_plain))
    axes.yaxis.set_minor_formatter(FuncFormatter(lambda *_: ""))
    legend_below(figure, axes)
    return figure


def _series(rows: pl.DataFrame) -> Iterator[tuple[str, str, pl.DataFrame]]:
    for place, ((name,), one) in enumerate(rows.group_by("of", maintain_order=True)):
        yield SERIES[place % len(SERIES)], str(name), one


def _plain(value: float, _: int) -> str:
    return f"{value:g}"
