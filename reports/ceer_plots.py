"""Figures of operations, devices and S (Figs. 2 to 7 of Ceer)."""

from collections.abc import Mapping

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from reports.plots import LINEAR, SERIES, blank, styled

_INCHES_A_TYPE = 0.22
_MARKS = "osD^vP*"


@styled
def by_type(rows: pl.DataFrame, column: str, label: str, title: str = "") -> Figure:
    """Plot a figure of each type of operation, a mark for each node type (Figs. 2 and 3).

    `rows` has type, node_type and `column`, which is drawn on a logarithmic scale.
    """
    figure, axes = blank(title)
    types = rows.group_by("type").agg(pl.col(column).mean()).sort(column)["type"].to_list()
    places = {name: place for place, name in enumerate(types)}
    figure.set_figheight(1.2 + _INCHES_A_TYPE * len(types))
    for (color, mark), (name, one) in zip(_looks(), _series(rows), strict=False):
        heights = [places[kind] for kind in one["type"]]
        axes.plot(one[column], heights, mark, ms=5, color=color, label=name)
    axes.set(xscale="log", xlabel=label, yticks=range(len(types)), yticklabels=types)
    axes.legend(loc="lower right")
    return figure


@styled
def by_input(points: pl.DataFrame, lines: Mapping[str, tuple[float, float]]) -> Figure:
    """Plot the time of operations of one type by their input, and a line (Fig. 4).

    `points` has node_type, input (megabytes) and mean_us; `lines` what an operation takes, and what
    a megabyte more does, in microseconds.
    """
    figure, axes = blank("")
    for (color, mark), (name, one) in zip(_looks(), _series(points), strict=False):
        axes.plot(one["input"], one["mean_us"] / 1e3, mark, ms=3, color=color, label=name)
        constant_us, us_per_mb = lines[name]
        ends = np.array([0.0, one["input"].max()])
        axes.plot(ends, (constant_us + us_per_mb * ends) / 1e3, "-", lw=1, color=color)
    axes.set(xlabel="input, MB", ylabel="ms")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


@styled
def deviations(rows: pl.DataFrame) -> Figure:
    """Plot which share of operations varies by no more than so much (Fig. 5).

    `rows` has node_type, deviation (standard deviation over mean) and share.
    """
    figure, axes = blank("")
    for (color, _), (name, one) in zip(_looks(), _series(rows), strict=False):
        axes.step(one["deviation"], one["share"], where="post", color=color, label=name)
    axes.set(xscale="log", xlabel="standard deviation / mean", ylabel="share of operations")
    axes.set_ylim(0, 1)
    axes.legend(loc="upper left")
    return figure


@styled
def scaling(rows: pl.DataFrame) -> Figure:
    """Plot the time of an epoch on several devices, relative to one (Fig. 6).

    `rows` has node_type, devices and relative_time.
    """
    figure, axes = blank("")
    for (color, mark), (name, one) in zip(_looks(), _series(rows), strict=False):
        line = one.sort("devices")
        axes.plot(line["devices"], line["relative_time"], f"-{mark}", color=color, label=name)
    devices = rows["devices"].unique().sort().to_list()
    axes.plot(devices, [1 / k for k in devices], ":", color=LINEAR, label="ideal")
    axes.set(xlabel="devices", ylabel="epoch, relative to one device", xticks=devices)
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left")
    return figure


@styled
def overheads(rows: pl.DataFrame, lines: Mapping[str, tuple[float, float]]) -> Figure:
    """Plot S_k of one number of devices by parameters, and a line (Fig. 7).

    `rows` has node_type, parameter_count and overhead_s; `lines` seconds without parameters, and of
    each.
    """
    figure, axes = blank("")
    for (color, mark), (name, one) in zip(_looks(), _series(rows), strict=False):
        axes.plot(one["parameter_count"] / 1e6, one["overhead_s"], mark, color=color, label=name)
        intercept_s, per_parameter_s = lines[name]
        ends = np.array([0.0, one["parameter_count"].max()])
        axes.plot(ends / 1e6, intercept_s + per_parameter_s * ends, "-", lw=1, color=color)
    axes.set(xlabel="millions of parameters", ylabel="S, seconds")
    axes.set_xlim(left=0)
    axes.legend(loc="upper left")
    return figure


def _series(rows: pl.DataFrame) -> list[tuple[str, pl.DataFrame]]:
    parts = rows.sort("node_type", maintain_order=True).group_by("node_type", maintain_order=True)
    return [(str(name), one) for (name,), one in parts]


def _looks() -> list[tuple[str, str]]:
    return list(zip(SERIES, _MARKS, strict=True))
