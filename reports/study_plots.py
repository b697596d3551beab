"""Figures of a study: curves, errors, convergence, links, balance, and what packets show."""

from collections.abc import Iterable, Mapping, Sequence

import polars as pl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from models.async_sgd.overhead import Overhead
from reports.plots import (
    LINEAR,
    MEASURED,
    PREDICTED,
    RESOURCES,
    SERIES,
    SIGNED,
    blank,
    legend_below,
    styled,
)

Named = Sequence[tuple[str, pl.DataFrame]]
"""Rows of curves with their names, which need not differ."""


@styled
def comparison(series: Mapping[str, pl.DataFrame], title: str = "") -> Figure:
    """Plot examples per second by workers: predicted as lines, measured as squares.

    Frames by label have workers, predicted and measured (NULL: not known), examples per second.
    """
    figure, axes = blank(title)
    for place, (label, rows) in enumerate(series.items()):
        color = SERIES[place % len(SERIES)]
        axes.plot(rows["workers"], rows["predicted"], "-o", ms=3, color=color, label=label)
        known = rows.filter(pl.col("measured").is_not_null())
        axes.plot(known["workers"], known["measured"], "s", ms=7, mfc="none", color=color)
    axes.set(xlabel="workers", ylabel="examples/s of all workers", xticks=_workers(series.values()))
    axes.set_ylim(bottom=0)
    axes.legend(loc="best", title="line predicted, square measured", title_fontsize="small")
    return figure


@styled
def forecasts(series: Named, label: str, title: str = "") -> Figure:
    """Plot a predicted metric by workers, a line per curve; frames have workers, predicted."""
    figure, axes = blank(title)
    for place, (name, rows) in enumerate(series):
        color = SERIES[place % len(SERIES)]
        axes.plot(rows["workers"], rows["predicted"], "-o", ms=3, color=color, label=name)
    axes.set(xlabel="workers", ylabel=label, xticks=_workers(rows for _, rows in series))
    axes.set_ylim(bottom=0)
    legend_below(figure, axes)
    return figure


@styled
def errors(series: Named, title: str = "") -> Figure:
    """Plot the error of predictions by workers; frames by label have workers, error_percent."""
    figure, axes = blank(title)
    axes.axhspan(-10, 10, color=LINEAR, alpha=0.15, lw=0)
    axes.axhline(0, color=LINEAR, lw=1)
    for place, (label, rows) in enumerate(series):
        color = SERIES[place % len(SERIES)]
        axes.plot(rows["workers"], rows["error_percent"], "-o", ms=5, color=color, label=label)
    axes.set(xlabel="workers", ylabel=SIGNED, xticks=_workers(rows for _, rows in series))
    legend_below(figure, axes)
    return figure


@styled
def underestimation(error_percent: pl.Series, marked: float, title: str = "") -> Figure:
    """Plot which part of the scenarios is underestimated by at most so much; one part is marked.

    What is overestimated is underestimated by 0. `error_percent`: forecast over measured, below 0
    where the forecast was too small.

    Source: Srift, Figure 7.
    """
    figure, axes = blank(title)
    under = (-error_percent).clip(lower_bound=0).sort()
    shares = [(i + 1) / len(under) for i in range(len(under))]
    axes.step([0.0, *under], [0.0, *shares], where="post", color=PREDICTED)
    axes.axhline(marked, color=LINEAR, ls=":", lw=1)
    axes.set(xlabel="underestimated by, %", ylabel="share of scenarios", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    return figure


@styled
def convergence(measured: pl.DataFrame, simulated: pl.DataFrame, title: str = "") -> Figure:
    """Plot throughput by steps since the start; frames have step and steps_per_s."""
    figure, axes = blank(title)
    kinds = ((simulated, PREDICTED, "-", "simulated"), (measured, MEASURED, "-s", "measured"))
    for rows, color, style, label in kinds:
        axes.plot(rows["step"], rows["steps_per_s"], style, ms=5, color=color, label=label)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set(xlabel="steps of each worker since the start", ylabel="steps/s of all workers")
    axes.set_ylim(bottom=0)
    axes.legend(loc="lower right")
    return figure


@styled
def active_links(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot when each connection had data under way, over how many did in its direction.

    `rows` has resource, worker, server, start_s and end_s.
    """
    figure, axes = blank(title)
    connections = rows.select("resource", "server", "worker").unique().sort(pl.all())
    labels = []
    for place, (resource, server, worker) in enumerate(connections.iter_rows()):
        bars = rows.filter(resource=resource, server=server, worker=worker)
        spans = bars.select("start_s", pl.col("end_s") - pl.col("start_s")).rows()
        axes.broken_barh(spans, (place - 0.35, 0.7), color=RESOURCES[resource])
        labels.append(f"{resource}, server {server + 1}, worker {worker + 1}")
    axes.set_yticks(range(len(labels)), labels=labels)
    axes.invert_yaxis()
    axes.set(xlabel="seconds")
    return figure


@styled
def busy(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot when each resource was at work in some steps, laid end to end.

    `rows` has step, resource, start_us and end_us.
    """
    figure, axes = blank(title)
    for place, (resource, color) in enumerate(RESOURCES.items()):
        bars = rows.filter(resource=resource)
        spans = bars.select(
            pl.col("start_us") / 1e3, (pl.col("end_us") - pl.col("start_us")) / 1e3
        ).rows()
        axes.broken_barh(spans, (place - 0.35, 0.7), color=color)
    for start_us in rows.group_by("step").agg(pl.col("start_us").min())["start_us"].sort()[1:]:
        axes.axvline(start_us / 1e3, color=LINEAR, ls=":", lw=1)
    axes.set_yticks(range(len(RESOURCES)), labels=list(RESOURCES))
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds since the first step's start")
    return figure


@styled
def balance(held: Mapping[str, Sequence[int]], title: str = "") -> Figure:
    """Plot the bytes of variables on each server, one bar per label, stacked by server."""
    figure, axes = blank(title)
    lefts = [0.0] * len(held)
    for server in range(max(len(one) for one in held.values())):
        widths = [one[server] / 1e6 for one in held.values()]
        color = SERIES[server % len(SERIES)]
        axes.barh(list(held), widths, left=lefts, color=color, label=f"server {server + 1}")
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.invert_yaxis()
    axes.set(xlabel="variables, MB")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def _workers(frames: Iterable[pl.DataFrame]) -> list[int]:
    return sorted({workers for rows in frames for workers in rows["workers"]})


# Figures of captured packets: overhead by size, windows over time, streams of a step.


@styled
def overhead(rows: pl.DataFrame, line: Overhead, title: str = "") -> Figure:
    """Plot overhead against size: median and 10 to 90 % of each size, and the fitted line.

    `rows` has size_bytes and overhead_s.
    """
    figure, axes = blank(title)
    sizes = (
        rows.group_by("size_bytes")
        .agg(
            low=pl.col("overhead_s").quantile(0.1),
            median=pl.col("overhead_s").median(),
            high=pl.col("overhead_s").quantile(0.9),
        )
        .with_columns(mb=pl.col("size_bytes") / 1e6)
        .sort("mb")
    )
    axes.vlines(sizes["mb"], sizes["low"] * 1e3, sizes["high"] * 1e3, color=LINEAR, alpha=0.6)
    axes.plot(sizes["mb"], sizes["median"] * 1e3, "o", ms=4, color=MEASURED, label="median")
    ends = [0.0, float(sizes["mb"][-1])]
    fitted = [1e3 * (line.alpha_s_per_byte * 1e6 * mb + line.beta_s) for mb in ends]
    axes.plot(ends, fitted, color=PREDICTED, label="fitted line")
    axes.set(xlabel="tensor, MB", ylabel="overhead, ms")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


@styled
def windows(announced: Mapping[str, pl.DataFrame], title: str = "") -> Figure:
    """Plot WIN as announced over time; frames by label have seconds and window_bytes."""
    figure, axes = blank(title)
    latest = max((float(rows["seconds"][-1]) for rows in announced.values()), default=0.0)
    for place, (label, rows) in enumerate(announced.items()):
        seconds = [*rows["seconds"], latest]
        mib = [one / 2**20 for one in (*rows["window_bytes"], rows["window_bytes"][-1])]
        color = SERIES[place % len(SERIES)]
        axes.step(seconds, mib, where="post", color=color, label=label)
    axes.set_yscale("log", base=2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set(xlabel="seconds since the first SETTINGS", ylabel="WIN, MiB")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))
    return figure


@styled
def multiplexing(pieces: pl.DataFrame, title: str = "") -> Figure:
    """Plot which stream was sent when, a row per stream in the order of their first packets.

    `pieces` is what `models.async_sgd.http2` returns; streams sent in several pieces stand out.
    """
    figure, axes = blank(title)
    streams = pieces.select("server", "stream").unique(maintain_order=True).with_row_index("row")
    rows = pieces.join(streams, on=["server", "stream"]).with_columns(
        suspended=pl.len().over("row") > 1
    )
    kinds = ((False, PREDICTED, "in one piece"), (True, MEASURED, "in several"))
    for suspended, color, label in kinds:
        part = rows.filter(suspended=suspended)
        start_ms = part["start_us"] / 1e3
        axes.barh(
            part["row"], (part["end_us"] - part["start_us"]) / 1e3, left=start_ms, color=color,
            label=f"{label} ({part['row'].n_unique()})",
        )  # fmt: skip
    axes.invert_yaxis()
    axes.set(xlabel="milliseconds since the step's start", ylabel="stream, by first packet")
    axes.legend(loc="lower left")
    return figure


@styled
def link_use(carried: Mapping[str, pl.DataFrame], bin_us: int, title: str = "") -> Figure:
    """Plot what a link carried during one step; by direction start_us of each bin, and Bps."""
    figure, axes = blank(title)
    for direction, rows in carried.items():
        axes.bar(
            rows["start_us"] / 1e3, rows["Bps"] * 8e-6, width=bin_us / 1e3, align="edge",
            color=RESOURCES[direction], alpha=0.6, label=direction,
        )  # fmt: skip
    axes.set(xlabel="milliseconds since the step's start", ylabel="Mb/s")
    axes.legend(loc="best")
    return figure
