"""What configurations gave over time: a panel for each figure, a numbered point for each run."""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from reports.plots import MEASURED, styled

_PANEL_INCHES, _WIDTH_INCHES = 2.1, 9.0
_MOST_NUMBERED = 40


@dataclass(frozen=True)
class Series:
    """One figure of one configuration: its name, unit, and rows with started_at and value."""

    title: str
    unit: str
    rows: pl.DataFrame


@styled
def over_time(series: Sequence[Series]) -> Figure:
    """Plot figures over time, one panel each, with the median and the median absolute deviation.

    Points are numbered in the order of time, as the table beside the picture numbers runs.
    """
    figure = Figure(
        figsize=(_WIDTH_INCHES, _PANEL_INCHES * len(series) + 0.4), layout="constrained"
    )
    panels = figure.subplots(len(series), 1, squeeze=False)
    for axes, one in zip(panels[:, 0], series, strict=True):
        times, values = one.rows["started_at"].to_list(), one.rows["value"]
        median = values.median()
        assert isinstance(median, float)
        spread = (values - median).abs().median()
        assert isinstance(spread, float)
        axes.axhspan(median - spread, median + spread, color=MEASURED, alpha=0.12, linewidth=0)
        axes.axhline(median, color=MEASURED, alpha=0.5, linewidth=1)
        axes.plot(times, values, "o-", color=MEASURED, markersize=4, linewidth=0.8)
        if len(values) <= _MOST_NUMBERED:
            for number, (time, value) in enumerate(zip(times, values, strict=True), start=1):
                axes.annotate(
                    str(number), (time, value), xytext=(0, 4), textcoords="offset points",
                    ha="center", fontsize=7,
                )  # fmt: skip
        axes.margins(y=0.25)
        axes.set_title(one.title, fontsize=9, loc="left")
        axes.set_ylabel(one.unit)
        locator = AutoDateLocator()
        axes.xaxis.set_major_locator(locator)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    panels[-1, 0].set_xlabel("UTC; line and band: median and median absolute deviation")
    return figure
