"""Sections of any study's report: curves, scenarios, published forecasts, origin."""

import json
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from forecasting.evaluation import Evaluation
from reports.html import Column, Section, table, table_section, text_column
from reports.plots import LINEAR, MEASURED, PREDICTED, blank, styled
from reports.wording import DASH, interval, number, percent, signed, spaced

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


# Every scenario of a round: forecast and measured.


_MADE = {"sealed": "published", "before": "before its run", "after": "after the fact"}


def scenarios_section(evaluation: Evaluation) -> Section | None:
    """Return a heading and a table, one row for each scenario."""
    rows, baseline = evaluation.rows, evaluation.baseline
    repeat = evaluation.round.repeat
    description = (
        f"Figures are {evaluation.metric}; brackets are 90 % prediction intervals. Error "
        "is (predicted − measured) / measured: above 0, the forecast was too high."
    )
    if (rows["forecast_round"] != repeat).any():
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
        Column(baseline, "linear", number),
        Column(f"error of {baseline}", "linear_error_percent", signed),
        text_column("split", format=spaced),
        text_column("forecast made", lambda row: _made(row, repeat)),
    )
    return table_section("All scenarios", description, columns, rows)


def _made(row: Mapping[str, Any], repeat: int) -> str:
    """Return when a judged forecast was made; of others, for which round."""
    if row["made"] is not None:
        return _MADE[row["made"]]
    if row["forecast_round"] is None:
        return DASH
    if row["forecast_round"] != repeat:
        return f"for round {row['forecast_round']}"
    return "not judged"


# How wrong forecasts were that had been published before anybody measured.


_TIME = "{:%Y-%m-%d %H:%M}".format
_PUBLISHED = (
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
)


def published_section(rows: pl.DataFrame | None) -> Section | None:
    """Return the section of rows of query `sealed`."""
    said = (
        "These forecasts were written to a file before the first of the runs that judge them "
        "began. They are judged as they were published, by all runs of the study that began later, "
        "whatever later code forecasts. Errors are absolute."
    )
    return table_section("Forecasts that were published before measuring", said, _PUBLISHED, rows)


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


def provenance(evaluation: Evaluation) -> str:
    """Return two tables in HTML: what the runs have in common, and the runs themselves."""
    round_ = evaluation.round
    if not round_.runs:
        return "<p>Nothing has landed.</p>"
    newest = max(round_.runs, key=lambda run: run.started_at)
    facts = {
        "study": f"{round_.study.name}, round {round_.repeat}",
        "backend": round_.backend,
        "cluster": _listed(
            {key: newest.config[key] for key in _CLUSTER_FACTS if key in newest.config}
        ),
        "host": f"{round_.host_id}: {_listed(dict(newest.host))}",
        "software": _listed(dict(newest.software)),
        "nodes": "; ".join(evaluation.node_types),
    }
    common = table(
        (text_column("what", itemgetter(0)), text_column("value", itemgetter(1), wraps=True)),
        facts.items(),
    )
    runs = sorted(round_.runs, key=lambda run: run.started_at)
    return f"{common}<p></p>{table(_RUNS, runs)}"


def _listed(facts: dict[str, object]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in facts.items()
    )
