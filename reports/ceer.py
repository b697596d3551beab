"""Sections of the papers' page on Ceer: operations, devices, unseen DNNs, chosen instances."""

from collections.abc import Iterator, Mapping
from itertools import cycle
from math import isinf

import numpy as np
import polars as pl
from matplotlib.figure import Figure

from forecasting.findings.ceer import (
    CeerFindings,
    Devices,
    Operations,
    StepErrors,
    StepOverhead,
    TimeByInput,
    UnseenErrors,
)
from models.ceer.recommendation import InstanceCandidate
from reports.html import Column, TableSection, caption_figure, grid, table, text_column
from reports.plots import LINEAR, blank, series, styled
from reports.wording import DASH, share, signed_share, spaced, span

TITLE = "Hafeez and Gandhi, Ceer"
BESIDE: Mapping[str, str] = {
    "Time of single operations": r"section III-A|section IV-B: R squared",
    "Several devices in a node": r"section III-D|section IV-C",
    "Steps of unseen DNNs": r"Fig\. 8\b|section IV-B: training time error",
    "Operations of unseen DNNs": "section IV-B: mean error of one operation type",
    "What to rent for unseen DNNs": r"Fig\. (9|10|11|12)\b|section V: market price",
}
"""Sections by title, and what of the paper's own figures stands there: place and quantity."""


def sections(findings: CeerFindings) -> Iterator[str]:
    """Yield the sections of a round in the order of the paper; some are empty."""
    yield operations_section(findings.operations)
    yield devices_section(findings.devices)
    yield unseen_section(findings.unseen)
    yield CHOICES.html(findings.choices)


# What operations take, cost, and by how much they vary (section III of Ceer, Figs. 2 to 5).


_CLASSES = (
    "<p>Heavy types take {threshold:g} ms or more in the mean on {slowest}, the slowest node type; "
    "CPU types have no GPU kernel. Shares of the time of all operations of a step.</p>"
)
_NONE_IS_HEAVY = "<p>No type takes that long here.</p>"
_REGRESSIONS = (
    "<p>What times of heavy types are fitted with: the forms that were chosen, and over node types "
    "the least and the largest R², and error of all operations of a DNN that was left out.</p>"
)


def operations_section(operations: Operations) -> str:
    """Return figures and shares of the operations of DNNs that predictors saw."""
    classes = _CLASSES.format(threshold=operations.threshold_us / 1e3, slowest=operations.slowest)
    if not operations.regressions:
        return (
            f"<h2>Time of single operations</h2>{classes}{_NONE_IS_HEAVY}"
            f"{_shares(operations.shares)}"
        )
    figures = [("Time of heavy operations", _times(operations.times))]
    if operations.times["usd"].is_not_null().any():
        figures.append(("Cost of heavy operations", _costs(operations.times)))
    figures.append(("How much they vary", _deviations(operations.deviations)))
    figures += [(f"{times.type} by input", _by_input(times)) for times in operations.by_input]
    return (
        f"<h2>Time of single operations</h2>{grid(figures)}{classes}{_shares(operations.shares)}"
        f"{_REGRESSIONS}{table(_REGRESSION_COLUMNS, operations.regressions)}"
    )


def _times(heavy: pl.DataFrame) -> str:
    figure = by_type(heavy.with_columns(ms=pl.col("mean_us") / 1e3), "ms", "ms of one operation")
    slowest = heavy.sort("mean_us").row(-1, named=True)
    longest = f"the longest is {slowest['type']} on {slowest['node_type']}"
    return caption_figure(
        figure, f"Mean time of heavy types; {longest}", "Means over all DNNs that are fitted."
    )


def _costs(heavy: pl.DataFrame) -> str:
    figure = by_type(
        heavy.drop_nulls("usd").with_columns(nanos=pl.col("usd") * 1e9),
        "nanos",
        "billionths of a dollar",
    )
    cheapest = heavy.drop_nulls("usd").sort("usd").unique("type", keep="first")
    won = cheapest["node_type"].value_counts().sort("count", "node_type", descending=[True, False])
    wins = ", ".join(f"{name} for {n}" for name, n in won.iter_rows())
    return caption_figure(
        figure,
        f"Cost of heavy types; cheapest: {wins}",
        f"Cheapest: {wins} of {cheapest.height}.",
    )


def _deviations(heavy: pl.DataFrame) -> str:
    within = (
        heavy.filter(pl.col("deviation") <= 0.1).group_by("node_type").agg(pl.col("share").max())
    )
    shares = ", ".join(
        f"{name} {share(part)}" for name, part in within.sort("node_type").iter_rows()
    )
    return caption_figure(
        deviations(heavy),
        "Distribution of the normalised standard deviation of heavy operations",
        f"Over the traced steps. Below 0.1: {shares or 'none'}.",
    )


def _by_input(times: TimeByInput) -> str:
    r_squared = f"R² {span(times.r_squared, '{:.2f}')}"
    return caption_figure(
        by_input(times.points, times.lines),
        f"Time of {times.type} by size of input; {r_squared}",
        f"Lines of least squares in the input alone, as in the paper's figure: {r_squared}. "
        "What is fitted may see filters, outputs and multiplications too.",
    )


_SHARES = (
    text_column("DNN", "dnn"),
    text_column("node type", "node_type"),
    Column("heavy", lambda row: row.get("heavy") or 0.0, share),
    Column("light", lambda row: row.get("light") or 0.0, share),
    Column("CPU", lambda row: row.get("cpu") or 0.0, share),
)
_REGRESSION_COLUMNS = (
    text_column("type"),
    text_column("forms", format=", ".join),
    text_column("R²", "r_squared", lambda values: span(values, "{:.2f}")),
    text_column("error of the sum", "sum_error", lambda values: span(values, "{:.1%}")),
    Column("operations", "points"),
)


def _shares(rows: pl.DataFrame) -> str:
    wide = rows.pivot("class", index=["dnn", "node_type"], values="share", maintain_order=True)
    return table(_SHARES, wide)


# Several devices: how much shorter epochs are, and S (sections III-D and IV-C, Figs. 6 and 7).


def devices_section(devices: Devices | None) -> str:
    """Return figures of the steps of DNNs that predictors saw; nothing without any."""
    if devices is None:
        return ""
    figures = [
        *((f"{dnn} on several devices", _scaling(rows)) for dnn, rows in devices.relative.items()),
        *((_title(overhead), _overheads(overhead)) for overhead in devices.beside),
    ]
    return f"<h2>Several devices in a node</h2>{grid(figures)}"


def _title(beside: StepOverhead) -> str:
    if beside.devices == 1:
        return "S of one device"
    speed = "" if beside.link_mbps is None else f", {beside.link_mbps:g} Mb/s"
    return f"S of {beside.devices} devices{speed}"


def _scaling(rows: pl.DataFrame) -> str:
    means = rows.group_by("devices").agg(pl.col("relative_time").mean()).sort("devices")
    ratios = ", ".join(f"{k}: {part:.2f}" for k, part in means.iter_rows())
    return caption_figure(
        scaling(rows),
        f"Epoch on several devices relative to one; in the mean {ratios}",
        f"Mean over node types, {ratios}.",
    )


def _overheads(beside: StepOverhead) -> str:
    r_squared = f"R² {span(beside.r_squared, '{:.2f}')}"
    return caption_figure(
        overheads(beside.rows, beside.lines),
        f"What a step takes beside its operations, by parameters; {r_squared}",
        f"Steps less the sum of their operations; lines of least squares: {r_squared}.",
    )


# How wrong Ceer is on DNNs that it has not seen, and on their operations (section V of Ceer).


_WORDS = {
    (): "all",
    ("light",): "without light and CPU operations",
    ("overhead",): "without S",
}
_STEPS = (
    "<p>Steps of DNNs that were left out of fits, their operations known from their profiles: the "
    "test set together, and each DNN by itself. Mean absolute errors, and with sign. Steps with "
    "heavy operations that no other DNN has are not known.</p>"
)
_MOST_TYPES = 3  # named of those that were not seen

_OPERATIONS = (
    "<p>Operations of the test set, of all node types together: how many distinct ones, the mean "
    "absolute error of their times, the error of their sum, and which part of all time it is.</p>"
)
_RANKINGS = (
    "<p>Pairs of node types, with equal devices, that were forecast in the order in which they "
    "were measured. Pairs closer than {noise} are left out.</p>"
)


def _left_out(errors: StepErrors) -> str:
    if errors.dnn is not None:
        return f"{errors.dnn} by itself"
    return f"test set, {_WORDS[errors.without]}"


def _not_known(errors: StepErrors) -> str:
    """Return how many steps have no prediction, and the types of operations for which."""
    types = errors.types
    names = ", ".join(types[:_MOST_TYPES]) + ("…" if len(types) > _MOST_TYPES else "")
    return f"{errors.unknown} ({names})" if types else "0"


_STEP_COLUMNS = (
    text_column("left out", _left_out),
    Column("mean error", "mean", share),
    Column("with sign", "signed", signed_share),
    Column("largest", format=share),
    Column("steps", "n"),
    Column("not known", _not_known),
)
_OPERATION_COLUMNS = (
    text_column("type"),
    Column("operations", "n"),
    Column("mean error", "error", share),
    Column("error of the sum", "sum_error", signed_share),
    Column("share", format=share),
)
_RANKING_COLUMNS = (
    text_column("DNN", "dnn"),
    Column("pairs"),
    Column("right"),
    Column("left out", "close"),
)


def unseen_section(unseen: UnseenErrors | None) -> str:
    """Return tables of errors on the test set; nothing where none of it was profiled."""
    if unseen is None:
        return ""
    rankings = _RANKINGS.format(noise=share(unseen.noise or 0.0))
    return (
        f"<h2>Steps of unseen DNNs</h2>{_STEPS}{table(_STEP_COLUMNS, unseen.steps)}"
        f"<h2>Operations of unseen DNNs</h2>{_OPERATIONS}"
        f"{table(_OPERATION_COLUMNS, unseen.operations)}"
        f"<h2>Order of node types of unseen DNNs</h2>{rankings}"
        f"{table(_RANKING_COLUMNS, unseen.rankings)}"
    )


# What Ceer, and rules of thumb, would have rented, judged by what was measured.


def _named(choice: InstanceCandidate | None) -> str:
    return DASH if choice is None else f"{choice.devices} {choice.node_type}"


def _regret(value: float | None) -> str:
    return "too dear" if value is not None and isinf(value) else share(value)


CHOICES = TableSection(
    "What to rent for unseen DNNs",
    "An epoch of 1.2 million samples on k nodes of a type, at k times its price. Budgets are "
    "the median price an hour of all offers, and the median of what epochs are forecast to cost; "
    "at market prices a share of a core costs the same whatever its instruction set. A choice's "
    "<em>regret</em> is by how much it is above the best that was measured; <em>too dear</em>: it "
    "exceeds the budget.",
    (
        text_column("scenario", "objective", spaced),
        text_column("DNN", "dnn"),
        text_column("choice", "chosen", _named),
        text_column("best", format=_named),
        Column("regret", lambda choice: _regret(choice.regrets[0])),
        Column("of the cheapest", lambda choice: _regret(choice.regrets[1])),
        Column("of the most powerful", lambda choice: _regret(choice.regrets[2])),
    ),
)
"""Of `forecasting.findings.ceer.InstanceChoice` of the test set."""


# Figures of operations, devices and S (Figs. 2 to 7 of Ceer).


_INCHES_A_TYPE = 0.22
_MARKS = "osD^vP*"


@styled
def by_type(rows: pl.DataFrame, column: str, label: str) -> Figure:
    """Plot a figure of each type of operation, a mark for each node type (Figs. 2 and 3).

    `rows` has type, node_type and `column`, which is drawn on a logarithmic scale.
    """
    figure, axes = blank()
    types = rows.group_by("type").agg(pl.col(column).mean()).sort(column)["type"].to_list()
    places = {name: place for place, name in enumerate(types)}
    figure.set_figheight(1.2 + _INCHES_A_TYPE * len(types))
    for color, mark, name, part in _by_node_type(rows):
        heights = [places[kind] for kind in part["type"]]
        axes.plot(part[column], heights, mark, ms=5, color=color, label=name)
    axes.set(xscale="log", xlabel=label, yticks=range(len(types)), yticklabels=types)
    axes.legend(loc="lower right")
    return figure


@styled
def by_input(points: pl.DataFrame, lines: Mapping[str, tuple[float, float]]) -> Figure:
    """Plot the time of operations of one type by their input, and a line (Fig. 4).

    `points` has node_type, input (megabytes) and mean_us; `lines` what an operation takes, and what
    a megabyte more does, in microseconds.
    """
    figure, axes = blank()
    for color, mark, name, part in _by_node_type(points):
        axes.plot(part["input"], part["mean_us"] / 1e3, mark, ms=3, color=color, label=name)
        constant_us, us_per_mb = lines[name]
        ends = np.array([0.0, part["input"].max()])
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
    figure, axes = blank()
    for color, _, name, part in _by_node_type(rows):
        axes.step(part["deviation"], part["share"], where="post", color=color, label=name)
    axes.set(xscale="log", xlabel="standard deviation / mean", ylabel="share of operations")
    axes.set_ylim(0, 1)
    axes.legend(loc="upper left")
    return figure


@styled
def scaling(rows: pl.DataFrame) -> Figure:
    """Plot the time of an epoch on several devices, relative to one (Fig. 6).

    `rows` has node_type, devices and relative_time.
    """
    figure, axes = blank()
    for color, mark, name, part in _by_node_type(rows):
        line = part.sort("devices")
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
    figure, axes = blank()
    for color, mark, name, part in _by_node_type(rows):
        axes.plot(part["parameter_count"] / 1e6, part["overhead_s"], mark, color=color, label=name)
        intercept_s, per_parameter_s = lines[name]
        ends = np.array([0.0, part["parameter_count"].max()])
        axes.plot(ends / 1e6, intercept_s + per_parameter_s * ends, "-", lw=1, color=color)
    axes.set(xlabel="millions of parameters", ylabel="S, seconds")
    axes.set_xlim(left=0)
    axes.legend(loc="upper left")
    return figure


def _by_node_type(rows: pl.DataFrame) -> Iterator[tuple[str, str, str, pl.DataFrame]]:
    """Yield colour, mark, name and rows of each node type."""
    ordered = rows.sort("node_type", maintain_order=True)
    for mark, (color, name, part) in zip(cycle(_MARKS), series(ordered, "node_type"), strict=False):
        yield color, mark, name, part
