"""Figures of captured packets: overhead by size, windows over time, streams of a step."""

from collections.abc import Mapping

import polars as pl
from matplotlib.figure import Figure

from models.async_sgd.overhead import Overhead
from reports.plots import LINEAR, MEASURED, PREDICTED, RESOURCES, SERIES, blank, styled


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

    `pieces` is what `models.async_sgd.pieces` returns; streams sent in several pieces stand out.
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
