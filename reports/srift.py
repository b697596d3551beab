"""Sections of the papers' page on Srift: step times, all-reduces, and the errors of its parts."""

from collections.abc import Iterator, Mapping

import polars as pl
from matplotlib.figure import Figure

from forecasting.findings.srift import (
    UNDERESTIMATED,
    Components,
    DataParallel,
    SriftFindings,
    StepTimes,
)
from reports.html import Column, TableSection, caption_figure, grid, table, text_column
from reports.plots import LINEAR, PREDICTED, blank, coloured, series, styled
from reports.wording import percent, signed

TITLE = "Luo et al., Srift (2022)"
BESIDE: Mapping[str, str] = {
    "Errors by network and batch size": r"Table 5, caption|section 5\.3: end-to-end MAPE",
    "Errors by node types and number of nodes": "end-to-end MAPE",
    "How far step times were underestimated": r"Fig\. 7\b",
    "Passes that fits did not see": r"section 5\.3: compute latency",
    "Batch sizes that fits did not see": r"section 5\.3: compute latency",
    "All-reduces that fits did not see": "all-reduce bandwidth",
}
"""Sections by title, and what of the paper's own figures stands there: place and quantity."""


def sections(findings: SriftFindings) -> Iterator[str]:
    """Yield the sections of a round in the order of the paper; some are empty."""
    yield data_parallel_section(findings.data_parallel)
    yield step_times_section(findings.step_times)
    yield components_section(findings.components)


# Errors of step times of data-parallel training (Table 5 and Fig. 7 of Srift).


_STEP_TIMES = (
    text_column("", "name"),
    Column("scenarios", "n"),
    Column("mean error", "mean", signed),
    Column("mean absolute error", "absolute", percent),
    Column("largest", format=percent),
    Column("underestimated by", "under", percent),
)


def step_times_section(times: StepTimes | None) -> str:
    """Return errors by node types, nodes and batch, and the distribution of underestimation.

    Nothing if nothing was judged.
    """
    if times is None:
        return ""
    figure = caption_figure(
        underestimation_plot(times.error_percent, UNDERESTIMATED),
        "Share of scenarios by how much their step times are underestimated",
        "Dotted: 90 % of the scenarios.",
    )
    return (
        "<h2>Errors by node types and number of nodes</h2>"
        "<p>Of two or more nodes. In 90 % of the scenarios step times are <em>underestimated by"
        "</em> at most that much. Scenarios of one image on each node, where latency counts, are "
        f"apart.</p>{table(_STEP_TIMES, times.groups)}"
        f"<h2>How far step times were underestimated</h2>{figure}"
    )


# All-reduces and passes of a round of data-parallel training (section 4.2 and Fig. 5 of Srift).


_MEDIAN = "Lines go through the medians of all ranks and trials."
_MEAN = "Lines go through means; a point is a step."


def data_parallel_section(probed: DataParallel | None) -> str:
    """Return figures of bus bandwidth and of passes; nothing where neither was probed."""
    if probed is None:
        return ""
    reduced = [
        (name, caption_figure(bus_bandwidth(rows), f"Bus bandwidth by size, {name}", _MEDIAN))
        for name, rows in probed.allreduces.items()
    ]
    passes = [
        (name, caption_figure(passes_plot(rows), f"Seconds of passes by batch, {name}", _MEAN))
        for name, rows in probed.passes.items()
    ]
    parts = (("All-reduces", reduced), ("Passes of one node", passes))
    return "".join(f"<h2>{title}</h2>{grid(figures)}" for title, figures in parts if figures)


# How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3).


_WORDS = {
    "small": "up to the MTU",
    "large": "above the MTU",
    "alpha_beta": "α–β",
    "trees": "trees",
    "rated": "rated",
}
_PASS_COLUMNS = (
    text_column("profile", "name"),
    Column("forward", "forward_percent", percent),
    Column("backward", "backward_percent", percent),
    Column("both", "both_percent", percent),
    Column("floor", "floor_percent", percent),
    Column("batch sizes", "n"),
)
PASSES = TableSection(
    "Passes that fits did not see",
    "Each batch size but the outermost is left out in turn, and forecast from the others. Means "
    "of absolute errors; the <em>floor</em> is the mean standard error of what was measured.",
    _PASS_COLUMNS,
)
HELD_OUT = TableSection(
    "Batch sizes that fits did not see",
    "Batch sizes that were timed apart, after predictions, and forecast from the profile.",
    _PASS_COLUMNS,
)
ALLREDUCES = TableSection(
    "All-reduces that fits did not see",
    "Bus bandwidth of all-reduces, a tenth left out at a time: whole <em>configurations</em> "
    "(size, world, node types), or <em>rows</em>, as in the paper's 9/1 split. The <em>noise floor"
    "</em> is the error of forecasting each by the mean time of the other repeats of its "
    "configuration; <em>at least</em> that of the bandwidth that errs least for all of them.",
    (
        text_column("buffers", "side", _WORDS.__getitem__),
        text_column("left out", "split"),
        text_column("model", format=_WORDS.__getitem__),
        Column("mean error", "mape_percent", percent),
        Column("noise floor", "noise_floor_percent", percent),
        Column("at least", "least_percent", percent),
        Column("all-reduces", "n"),
    ),
)


def components_section(components: Components | None) -> str:
    """Return tables of errors of passes and of all-reduces; nothing where neither was probed."""
    if components is None:
        return ""
    return (
        PASSES.html(components.passes)
        + HELD_OUT.html(components.held_out)
        + ALLREDUCES.html(components.allreduces)
    )


# Figures of data-parallel training: all-reduces and passes (Figs. 2, 3, 6 and 7 of Srift).


@styled
def underestimation_plot(error_percent: pl.Series, marked: float) -> Figure:
    """Plot which part of the scenarios is underestimated by at most so much; one part is marked.

    What is overestimated is underestimated by 0. `error_percent`: forecast over measured, below 0
    where the forecast was too small.

    Source: Srift, Figure 7.
    """
    figure, axes = blank()
    under = (-error_percent).clip(lower_bound=0).sort()
    shares = [(i + 1) / len(under) for i in range(len(under))]
    axes.step([0.0, *under], [0.0, *shares], where="post", color=PREDICTED)
    axes.axhline(marked, color=LINEAR, ls=":", lw=1)
    axes.set(xlabel="underestimated by, %", ylabel="share of scenarios", ylim=(0, 1.02))
    axes.set_xlim(left=0)
    return figure


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
    for color, count, part in series(medians, "concurrent"):
        label = f"{count} at once"
        axes.plot(part["size_bytes"], part["mbps"], "-o", ms=3, color=color, label=label)
    axes.set(xscale="log", xlabel="bytes", ylabel="bus bandwidth of each, Mb/s")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure


@styled
def passes_plot(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot how long passes take by batch size: every step, and a line through means.

    `rows` has batch_size, forward_s and backward_s.
    """
    figure, axes = blank(title)
    means = rows.group_by("batch_size").agg(pl.col("forward_s", "backward_s").mean())
    for color, name in coloured(("forward", "backward")):
        column = f"{name}_s"
        axes.plot(rows["batch_size"], rows[column], "o", ms=2, alpha=0.4, color=color)
        line = means.sort("batch_size")
        axes.plot(line["batch_size"], line[column], "-", color=color, label=name)
    axes.set(xlabel="batch size", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend(loc="upper left")
    return figure
