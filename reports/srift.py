"""Sections of the papers' page on Srift: step times, all-reduces, and the errors of its parts."""

from collections.abc import Iterator, Mapping

import polars as pl
from matplotlib.figure import Figure

from forecasting.evaluation import PaperEvaluation
from forecasting.findings.srift import UNDERESTIMATED, Components, DataParallel, StepTimes
from reports import study_plots
from reports.html import Cell, caption_figure, grid, table
from reports.plots import SERIES, blank, styled
from reports.wording import percent

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


def sections(found: PaperEvaluation) -> Iterator[str]:
    """Yield the sections of a round in the order of the paper; some are empty."""
    yield data_parallel_section(found.data_parallel)
    yield step_times_section(found.step_times)
    yield components_section(found.components)


# Errors of step times of data-parallel training (Table 5 and Fig. 7 of Srift).


_HEAD = ("", "scenarios", "mean error", "mean absolute error", "largest", "underestimated by")
_SAID = (
    "<p>Of two or more nodes. In 90 % of the scenarios step times are <em>underestimated by</em> "
    "at most that much. Scenarios of one image on each node, where latency counts, are apart.</p>"
)


def step_times_section(found: StepTimes | None) -> str:
    """Return errors by node types, nodes and batch, and the distribution of underestimation.

    Nothing if nothing was judged.
    """
    if found is None:
        return ""
    body = [
        [
            Cell(row["name"], is_number=False),
            Cell(str(row["n"])),
            Cell(percent(row["mean"], signed=True)),
            *(Cell(percent(row[what])) for what in ("absolute", "largest", "under")),
        ]
        for row in found.groups.to_dicts()
    ]
    figure = caption_figure(
        study_plots.underestimation(found.error_percent, UNDERESTIMATED),
        "Share of scenarios by how much their step times are underestimated",
        "Dotted: 90 % of the scenarios.",
    )
    return (
        f"<h2>Errors by node types and number of nodes</h2>{_SAID}{table(_HEAD, body)}"
        f"<h2>How far step times were underestimated</h2>{figure}"
    )


# All-reduces and passes of a round of data-parallel training (section 4.2 and Fig. 5 of Srift).


_MEDIAN = "Lines go through the medians of all ranks and trials."
_MEAN = "Lines go through means; a point is a step."


def data_parallel_section(found: DataParallel | None) -> str:
    """Return figures of bus bandwidth and of passes; nothing where neither was probed."""
    if found is None:
        return ""
    reduced = [
        (
            name,
            caption_figure(bus_bandwidth(rows), f"Bus bandwidth by size, {name}", _MEDIAN),
        )
        for name, rows in found.allreduces.items()
    ]
    passes = [
        (name, caption_figure(passes_plot(rows), f"Seconds of passes by batch, {name}", _MEAN))
        for name, rows in found.passes.items()
    ]
    parts = (("All-reduces", reduced), ("Passes of one node", passes))
    return "".join(f"<h2>{title}</h2>{grid(figures)}" for title, figures in parts if figures)


# How much the parts of Srift err on what they were not fitted to (Table 6; section 5.3).


_PASSES = (
    "<p>Each batch size but the outermost is left out in turn, and forecast from the others. Means "
    "of absolute errors; the <em>floor</em> is the mean standard error of what was measured.</p>"
)
_HELD_OUT = (
    "<p>Batch sizes that were timed apart, after predictions, and forecast from the profile.</p>"
)
_ALLREDUCES = (
    "<p>Bus bandwidth of all-reduces, a tenth left out at a time: whole <em>configurations</em> "
    "(size, world, node types), or <em>rows</em>, as in the paper's 9/1 split. The <em>noise floor"
    "</em> is the error of forecasting each by the mean time of the other repeats of its "
    "configuration; <em>at least</em> that of the bandwidth that errs least for all of them.</p>"
)
_WORDS = {
    "small": "up to the MTU",
    "large": "above the MTU",
    "alpha_beta": "α–β",
    "trees": "trees",
    "rated": "rated",
}
_PASS_ERRORS = ("forward_percent", "backward_percent", "both_percent", "floor_percent")
_PASS_HEAD = ("profile", "forward", "backward", "both", "floor", "batch sizes")
_ALLREDUCE_ERRORS = ("mape_percent", "noise_floor_percent", "least_percent")
_ALLREDUCE_HEAD = (
    "buffers",
    "left out",
    "model",
    "mean error",
    "noise floor",
    "at least",
    "all-reduces",
)


def components_section(components: Components | None) -> str:
    """Return tables of errors of passes and of all-reduces; nothing where neither was probed."""
    if components is None:
        return ""
    parts = (
        ("Passes", _PASSES, _passes(components.passes)),
        ("Batch sizes", _HELD_OUT, _passes(components.held_out)),
        ("All-reduces", _ALLREDUCES, _allreduces(components.allreduces)),
    )
    return "".join(
        f"<h2>{title} that fits did not see</h2>{said}{shown}"
        for title, said, shown in parts
        if shown
    )


def _passes(errors: pl.DataFrame | None) -> str:
    if errors is None:
        return ""
    body = [
        [
            Cell(row["name"], is_number=False),
            *(Cell(percent(row[name])) for name in _PASS_ERRORS),
            Cell(str(row["n"])),
        ]
        for row in errors.to_dicts()
    ]
    return table(_PASS_HEAD, body)


def _allreduces(errors: pl.DataFrame | None) -> str:
    if errors is None:
        return ""
    body = [
        [
            Cell(_WORDS[row["side"]], is_number=False),
            Cell(row["split"], is_number=False),
            Cell(_WORDS[row["model"]], is_number=False),
            *(Cell(percent(row[name])) for name in _ALLREDUCE_ERRORS),
            Cell(str(row["n"])),
        ]
        for row in errors.to_dicts()
    ]
    return table(_ALLREDUCE_HEAD, body)


# Figures of data-parallel training: all-reduces and passes (Figs. 2, 3, 6 and 7 of Srift).


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
def passes_plot(rows: pl.DataFrame, title: str = "") -> Figure:
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
