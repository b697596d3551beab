"""Figures of data-parallel training: all-reduces and passes (Figs. 2, 3, 6 and 7 of Srift)."""

import polars as pl
from matplotlib.figure import Figure

from reports.plots import SERIES, blank, styled


@styled
def bus_bandwidth(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot the bus bandwidth of all-reduces by size, a line for each number at once.

    `rows` has concurrent, size_bytes and bus_bandwidth_Bps; a line goes through medians.
    """
    figure, axes = blank(title)
    medians = (
        rows.group_by("concurrent", "size_bytes")
        .agg(mbps=pl.col("bus_bandwidth_Bps").median() * 8e-6)
        .sort("concurrent", "size_bytes")
    )
    for place, ((count,), one) in enumerate(medians.group_by("concurrent", maintain_order=True)):
        color = SERIES[place % len(SERIES)]
        axes.plot(one["size_bytes"], one["mbps"], "-o", ms=3, color=color, label=f"{count} at once")
    axes.set(xscale="log", xlabel="bytes", ylabel="bus bandwidth of each, Mb/s")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


@styled
def passes(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot how long passes take by batch size: every step, and a line through means.

    `rows` has batch_size, forward_s and backward_s.
    """
    figure, axes = blank(title)
    means = rows.group_by("batch_size").agg(pl.col("forward_s", "backward_s").mean())
    for color, name in zip(SERIES, ("forward", "backward"), strict=False):
        column = f"{name}_s"
        axes.plot(rows["batch_size"], rows[column], "o", ms=2, alpha=0.4, color=color)
        line = means.sort("batch_size")
        axes.plot(line["batch_size"], line[column], "-", color=color, label=name)
    axes.set(xlabel="batch size", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure
