"""Figures of any study: forecasts and measurements by workers, links, windows, traced steps."""

from collections.abc import Iterable, Sequence

import polars as pl
from matplotlib.figure import Figure

from reports.plots import (
    LINEAR,
    MEASURED,
    PREDICTED,
    RESOURCES,
    blank,
    coloured,
    legend_below,
    styled,
)

NamedCurves = Sequence[tuple[str, pl.DataFrame]]
"""Rows of curves with their names, which need not differ."""
_ABOVE_LEGEND = 24
_ABOVE_POINTS = 1.08


@styled
def scaling(
    rows: pl.DataFrame, label: str, title: str = "", baseline: str = "linear scaling"
) -> Figure:
    """Plot one curve's metric by number of workers: predicted, baseline, and measured if known.

    `rows` has workers, predicted, low, high, linear, measured and spread_percent.
    """
    figure, axes = blank(title)
    workers = rows["workers"].to_list()
    axes.fill_between(workers, rows["low"], rows["high"], color=PREDICTED, alpha=0.2, lw=0)
    axes.plot(workers, rows["predicted"], "-o", ms=4, color=PREDICTED, label="predicted")
    axes.plot(workers, rows["linear"], "--", color=LINEAR, label=baseline)
    known = rows.filter(pl.col("measured").is_not_null())
    if known.height:
        halves = known["measured"] * known["spread_percent"].fill_null(0) / 200
        axes.errorbar(
            known["workers"],
            known["measured"],
            yerr=halves,
            fmt="s",
            ms=6,
            capsize=3,
            color=MEASURED,
            label="measured",
        )
    axes.set(xlabel="workers", ylabel=label, xticks=workers)
    # Whole marks below the upper end, however close to each other all points are.
    axes.set_ylim(0, _ABOVE_POINTS * axes.get_ylim()[1])
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, borderaxespad=0)
    axes.set_title(title, fontsize=11, pad=_ABOVE_LEGEND if title else None)
    return figure


@styled
def goodput(links: pl.DataFrame, title: str = "") -> Figure:
    """Plot the goodput of links by direction and number of simultaneous flows.

    `links` has direction, flows, flow, trial and bandwidth_Bps; points are trials, all flows
    together.
    """
    figure, axes = blank(title)
    totals = links.group_by("direction", "flows", "trial").agg(
        mbps=pl.col("bandwidth_Bps").sum() * 8e-6
    )
    for offset, direction in ((-0.06, "downlink"), (0.06, "uplink")):
        points = totals.filter(pl.col("direction") == direction)
        axes.plot(
            points["flows"] + offset,
            points["mbps"],
            "o",
            label=direction,
            color=RESOURCES[direction],
        )
    flows = links["flows"].unique().sort().to_list()
    axes.set(xlabel="simultaneous flows", ylabel="goodput of all flows, Mb/s", xticks=flows)
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower left")
    return figure


@styled
def contention(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot what each of n simultaneous transfers got of a link, by how long it had been at it.

    `rows` has direction, flows, place, seconds and bytes; those of a place are added up.
    """
    figure, axes = blank(title)
    totals = rows.group_by("direction", "flows", "place").agg(pl.sum("bytes", "seconds"))
    got = totals.with_columns(mbps=pl.col("bytes") / pl.col("seconds") * 8e-6)
    for offset, direction in ((-0.08, "downlink"), (0.08, "uplink")):
        part = got.filter(pl.col("direction") == direction)
        axes.plot(
            part["flows"] + offset, part["mbps"], "_", label=direction, color=RESOURCES[direction]
        )
        for flows, place, mbps in part.select("flows", "place", "mbps").iter_rows():
            axes.annotate(
                str(place + 1),
                (flows + offset, mbps),
                fontsize=7,
                xytext=(5, -2),
                textcoords="offset points",
            )
    ticks = rows["flows"].unique().sort().to_list()
    label = "Mb/s of each; 1: at it for the longest"
    axes.set(xlabel="simultaneous transfers", ylabel=label, xticks=ticks)
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper right")
    return figure


@styled
def step_timeline(timings: pl.DataFrame, title: str = "") -> Figure:
    """Plot when each resource was at work in the first traced step.

    `timings` has step, resource, start_us and duration_us.
    """
    figure, axes = blank(title)
    step = timings.filter(pl.col("step") == pl.col("step").min())
    spans = step.select("resource", pl.col("start_us") / 1e3, pl.col("duration_us") / 1e3)
    for row, resource in enumerate(RESOURCES):
        bars = spans.filter(pl.col("resource") == resource).select("start_us", "duration_us")
        axes.broken_barh(bars.rows(), (row - 0.35, 0.7), color=RESOURCES[resource], alpha=0.5)
    axes.set_yticks(range(len(RESOURCES)), labels=list(RESOURCES))
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds since the step's start")
    return figure


@styled
def windows(samples: pl.DataFrame, names: Sequence[str], label: str, title: str = "") -> Figure:
    """Plot what was measured in each window of each run, under an axis with this label.

    `samples` has name and value; `names` orders them.
    """
    figure, axes = blank(title)
    points = samples.filter(pl.col("name").is_in(names))
    order = {name: row for row, name in enumerate(names)}
    axes.plot(points["value"], [order[name] for name in points["name"]], "o", color=MEASURED)
    axes.set_yticks(range(len(names)), labels=list(names))
    axes.invert_yaxis()
    axes.set(xlabel=label)
    axes.set_xlim(left=0)
    return figure


@styled
def forecasts(curves: NamedCurves, label: str, title: str = "") -> Figure:
    """Plot a predicted metric by workers, a line per curve; frames have workers, predicted."""
    figure, axes = blank(title)
    for color, (name, rows) in coloured(curves):
        axes.plot(rows["workers"], rows["predicted"], "-o", ms=3, color=color, label=name)
    axes.set(xlabel="workers", ylabel=label, xticks=worker_ticks(rows for _, rows in curves))
    axes.set_ylim(bottom=0)
    legend_below(figure, axes)
    return figure


def worker_ticks(frames: Iterable[pl.DataFrame]) -> list[int]:
    """Return the numbers of workers of all frames, ascending."""
    return sorted({workers for rows in frames for workers in rows["workers"]})
