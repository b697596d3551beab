"""Sections of any study's report, and figures: board, scenarios, errors, origin."""

import json
from collections.abc import Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from forecasting.findings.errors import CAUSES
from forecasting.findings.mark import Mark
from forecasting.findings.study import RoundDescription
from reports.html import Column, TableSection, table, text_column
from reports.marks import draw
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
from reports.wording import DASH, formatted, interval, number, percent, signed, spaced

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


def bus_bandwidth(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot the bus bandwidth of all-reduces by size: medians, a line for each number at once.

    `rows` has concurrent, size_bytes and bus_bandwidth_Bps.
    """
    medians = (
        rows.group_by("concurrent", "size_bytes")
        .agg(mbps=pl.col("bus_bandwidth_Bps").median() * 8e-6)
        .sort("concurrent", "size_bytes")
        .with_columns(at_once=pl.format("{} at once", "concurrent"))
    )
    return draw(Mark("line", "size_bytes", ("mbps",), of="at_once", log="x"), medians, title)


def passes(rows: pl.DataFrame, title: str = "") -> Figure:
    """Plot mean seconds of passes by batch size; `rows` has batch_size, forward_s, backward_s."""
    means = rows.group_by("batch_size").agg(pl.col("forward_s", "backward_s").mean())
    return draw(
        Mark("line", "batch_size", ("forward_s", "backward_s")), means.sort("batch_size"), title
    )


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


# All systems of a study where all of them said something, and how much each covers.


BOARD = TableSection(
    "All systems, on the scenarios that all forecast",
    "Systems are compared on the scenarios that all of them forecast, of all rounds; beside it "
    "stands how many scenarios each forecasts at all, and how wrong it is there. Systems of other "
    "studies stand here where they forecast every scenario that was judged in this one, on the "
    "same host. What was measured while the host was busy does not count.",
    (
        text_column("system"),
        Column("scenarios of all", "n"),
        Column("mean absolute error", "mape", percent),
        Column("median", "median_ape", percent),
        Column("largest", "max_ape", percent),
        Column("scenarios of its own", "covered"),
        Column("covered", "covered_percent", percent),
        Column("error on these", "covered_mape", percent),
        Column("noise floor", lambda row: f"{percent(row['noise_floor'])} (n = {row['noise_n']})"),
    ),
)


def board_section(board: pl.DataFrame | None) -> str:
    """Return the board; nothing where fewer than two systems were judged.

    Args:
        board: rows of query `board`, of one study.
    """
    return BOARD.html(None if board is None or board.height < 2 else board)


# Every scenario of a round: forecast, measured, and what a dollar trains.


_MADE = {"sealed": "published", "before": "before its run", "after": "after the fact"}


def scenarios_section(
    rows: pl.DataFrame, about: RoundDescription, priced: pl.DataFrame | None
) -> str:
    """Return a heading and a table, one row for each scenario.

    Args:
        rows: of `forecasting.findings.study`.
        about: the round.
        priced: of `forecasting.findings.study`.
    """
    description = (
        f"Figures are {about.metric}; brackets are 90 % prediction intervals. Error "
        "is (predicted − measured) / measured: above 0, the forecast was too high."
    )
    per_dollar: tuple[Column, ...] = ()
    if priced is not None:
        description += (
            " Per dollar: examples that are trained for a dollar, at the price of the nodes of the "
            "run, or as their types declare it."
        )
        names = {"predicted": "per_dollar", "measured": "measured_per_dollar"}
        rows = rows.join(priced.rename(names), on="scenario_id", how="left", maintain_order="left")
        whole = formatted("{:,.0f}")
        per_dollar = (
            Column("per dollar, predicted", "per_dollar", whole),
            Column("per dollar, measured", "measured_per_dollar", whole),
        )
    if (rows["forecast_round"] != about.repeat).any():
        description += (
            " What was not profiled again in this round shows the forecast of an earlier round; "
            "runs of this one do not judge it."
        )
    columns = (
        text_column("scenario", "label"),
        Column("predicted", format=number),
        Column("interval", lambda row: interval(row["low"], row["high"]) or DASH),
        Column("measured", format=number),
        Column("error", "error_percent", signed),
        Column("within-run spread", "spread_percent", percent),
        *per_dollar,
        Column(about.baseline, "linear", number),
        Column(f"error of {about.baseline}", "linear_error_percent", signed),
        text_column("split", format=spaced),
        text_column("forecast made", lambda row: _made(row, about.repeat)),
    )
    return TableSection("All scenarios", description, columns).html(rows)


def _made(row: Mapping[str, Any], repeat: int) -> str:
    """Return when a judged forecast was made; of others, for which round."""
    if row["made"] is not None:
        return _MADE[row["made"]]
    if row["forecast_round"] is None:
        return DASH
    if row["forecast_round"] != repeat:
        return f"for round {row['forecast_round']}"
    return "not judged"


# Where the largest errors of a round come from, as a table of the report.


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms"


def _signed_ms(seconds: float) -> str:
    return f"{1e3 * seconds:+.0f} ms".replace("-", "−")


LARGEST_ERRORS = TableSection(
    "Where the largest errors come from",
    "A worker's time from one step to the next, predicted and measured, and what their "
    "difference is due to: as far as steps of a worker alone differ from its profile, to compute, "
    "wire and overlap; the rest, which other workers add, is queueing. A positive difference is a "
    "time predicted too long.",
    (
        text_column("scenario", "label"),
        Column("error", "error_percent", signed),
        Column("predicted", "predicted_s", _ms),
        Column("measured", "measured_s", _ms),
        Column("difference", lambda row: row["predicted_s"] - row["measured_s"], _signed_ms),
        *(Column(cause.removesuffix("_s"), cause, _signed_ms) for cause in CAUSES),
    ),
)


def largest_errors_section(rows: pl.DataFrame | None) -> str:
    """Return a heading and the table in HTML, nothing where errors cannot be told apart.

    `rows` are what `forecasting.findings.errors` returns.
    """
    if rows is not None and rows.is_empty():
        none = "No scenario with two or more like workers has been judged."
        return f"<h2>{LARGEST_ERRORS.title}</h2><p>{LARGEST_ERRORS.said}</p><p>{none}</p>"
    return LARGEST_ERRORS.html(rows)


# How wrong forecasts were that had been published before anybody measured.


_TIME = "{:%Y-%m-%d %H:%M}".format
PUBLISHED = TableSection(
    "Forecasts that were published before measuring",
    "These forecasts were written to a file before the first of the runs that judge them began. "
    "They are judged as they were published, by all runs of the study that began later, whatever "
    "later code forecasts. Errors are absolute.",
    (
        text_column("system"),
        text_column("split", format=spaced),
        Column("mean error", "mape", percent),
        Column("median", "median_ape", percent),
        Column("largest", "max_ape", percent),
        Column("inside the interval", "inside_percent", percent),
        Column("noise floor", "noise_floor", percent),
        Column("forecasts", "n"),
        text_column("published, UTC", "sealed_at", _TIME),
        text_column("first measured, UTC", "first_measured_at", _TIME),
    ),
)
"""Of rows of query `sealed`."""


# Where a round's figures come from: host, cluster, software, runs.


_RUNS = (
    text_column("run", "run_id"),
    text_column("purpose"),
    text_column("started, UTC", "started_at", "{:%Y-%m-%d %H:%M:%S}".format),
    Column("seconds", "took_s", "{:.1f}".format),
)
_CLUSTER_FACTS = (
    "shaped",
    "cpu_shares_enforced",
    "congestion_control",
    "queue_s",
    "mtu_bytes",
    "cpu_period_us",
)


def provenance_section(about: RoundDescription) -> str:
    """Return two tables in HTML: what the runs have in common, and the runs themselves."""
    if not about.runs:
        return "<p>Nothing has landed.</p>"
    newest = max(about.runs, key=lambda run: run.started_at)
    facts = {
        "study": f"{about.study}, round {about.repeat}",
        "backend": about.backend,
        "cluster": _listed(
            {key: newest.config[key] for key in _CLUSTER_FACTS if key in newest.config}
        ),
        "host": f"{about.host_id}: {_listed(dict(newest.host))}",
        "software": _listed(dict(newest.software)),
        "nodes": "; ".join(about.node_types),
    }
    common = table(
        (text_column("what", itemgetter(0)), text_column("value", itemgetter(1), wraps=True)),
        facts.items(),
    )
    runs = sorted(about.runs, key=lambda run: run.started_at)
    return f"{common}<p></p>{table(_RUNS, runs)}"


def _listed(facts: dict[str, object]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in facts.items()
    )
