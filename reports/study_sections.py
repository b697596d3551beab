"""Sections of any study's report: board, scenarios, largest errors, decisions, provenance."""

import json
from collections.abc import Mapping
from typing import Any

import polars as pl

from forecasting.findings.errors import CAUSES
from forecasting.findings.study import RoundDescription
from reports.html import Cell, table
from reports.wording import DASH, interval, number, percent
from warehouse.records import Run

# All systems of a study where all of them said something, and how much each covers.


_HEAD = (
    "system",
    "scenarios of all",
    "mean absolute error",
    "median",
    "largest",
    "scenarios of its own",
    "covered",
    "error on these",
    "noise floor",
)
_SAID = (
    "<p>Systems are compared on the scenarios that all of them forecast, of all rounds; beside it "
    "stands how many scenarios each forecasts at all, and how wrong it is there. Systems of other "
    "studies stand here where they forecast every scenario that was judged in this one, on the "
    "same host. What was measured while the host was busy does not count.</p>"
)


def board_section(board: pl.DataFrame | None) -> str:
    """Return the board; nothing where fewer than two systems were judged.

    Args:
        board: rows of query `board`, of one study.
    """
    if board is None or board.height < 2:
        return ""
    body = [
        [
            Cell(row["system"], is_number=False),
            Cell(str(row["n"])),
            *(Cell(percent(row[name])) for name in ("mape", "median_ape", "max_ape")),
            Cell(str(row["covered"])),
            *(Cell(percent(row[name])) for name in ("covered_percent", "covered_mape")),
            Cell(f"{percent(row['noise_floor'])} (n = {row['noise_n']})"),
        ]
        for row in board.iter_rows(named=True)
    ]
    return f"<h2>All systems, on the scenarios that all forecast</h2>{_SAID}{table(_HEAD, body)}"


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
    head = [
        "scenario", "predicted", "interval", "measured", "error", "within-run spread",
        about.baseline, f"error of {about.baseline}", "split", "forecast made",
    ]  # fmt: skip
    said = f"Figures are {about.metric}; brackets are 90 % prediction intervals. Error "
    said += "is (predicted − measured) / measured: above 0, the forecast was too high."
    if priced is not None:
        head[6:6] = ["per dollar, predicted", "per dollar, measured"]
        said += (
            " Per dollar: examples that are trained for a dollar, at the price of the nodes of the "
            "run, or as their types declare it."
        )
        names = {"predicted": "per_dollar", "measured": "measured_per_dollar"}
        rows = rows.join(priced.rename(names), on="scenario_id", how="left", maintain_order="left")
    if (rows["forecast_round"] != about.repeat).any():
        said += (
            " What was not profiled again in this round shows the forecast of an earlier round; "
            "runs of this one do not judge it."
        )
    body = [_cells(row, about.repeat, is_priced=priced is not None) for row in rows.to_dicts()]
    return f"<h2>All scenarios</h2><p>{said}</p>{table(head, body)}"


def _cells(row: Mapping[str, Any], repeat: int, *, is_priced: bool) -> list[Cell]:
    per_dollar = (row["per_dollar"], row["measured_per_dollar"]) if is_priced else ()
    return [
        Cell(row["label"], is_number=False),
        Cell(number(row["predicted"])),
        Cell(interval(row["low"], row["high"]) or DASH),
        Cell(number(row["measured"])),
        Cell(percent(row["error_percent"], signed=True)),
        Cell(percent(row["spread_percent"])),
        *(Cell(DASH if value is None else f"{value:,.0f}") for value in per_dollar),
        Cell(number(row["linear"])),
        Cell(percent(row["linear_error_percent"], signed=True)),
        Cell((row["split"] or DASH).replace("_", " "), is_number=False),
        Cell(_made(row, repeat), is_number=False),
    ]


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


_HEADING = (
    "<h2>Where the largest errors come from</h2>"
    "<p>A worker's time from one step to the next, predicted and measured, and what their "
    "difference is due to: as far as steps of a worker alone differ from its profile, to compute, "
    "wire and overlap; the rest, which other workers add, is queueing. A positive difference is a "
    "time predicted too long.</p>"
)
_LARGEST_ERRORS_HEAD = (
    "scenario",
    "error",
    "predicted",
    "measured",
    "difference",
    "compute",
    "wire",
    "overlap",
    "queueing",
)


def largest_errors_section(rows: pl.DataFrame | None) -> str:
    """Return a heading and the table in HTML, nothing where errors cannot be told apart.

    `rows` are what `forecasting.findings.errors` returns.
    """
    if rows is None:
        return ""
    if rows.is_empty():
        return f"{_HEADING}<p>No scenario with two or more like workers has been judged.</p>"
    return _HEADING + table(_LARGEST_ERRORS_HEAD, [_error_cells(row) for row in rows.to_dicts()])


def _error_cells(row: Mapping[str, Any]) -> list[Cell]:
    signed = [row["predicted_s"] - row["measured_s"], *(row[cause] for cause in CAUSES)]
    return [
        Cell(row["label"], is_number=False),
        Cell(percent(row["error_percent"], signed=True)),
        Cell(f"{1e3 * row['predicted_s']:.0f} ms"),
        Cell(f"{1e3 * row['measured_s']:.0f} ms"),
        *(Cell(f"{1e3 * seconds:+.0f} ms".replace("-", "−")) for seconds in signed),
    ]


# What systems and rules of thumb would have rented of what was measured, judged.


_DECISIONS_SAID = (
    "<p>Each question asks for the least cost by a deadline, or the least time on a budget, of a "
    "million samples on what a round measured of one network; the limits are drawn from a seed "
    "(<code>stepcast decisions</code>). <em>Surely</em>: the largest probability of breaking a "
    "limit that was accepted; without one, forecasts count as they are. <em>Regret</em>: by how "
    "much a choice that keeps the limits costs more, or takes longer, than the best.</p>"
)
_DECISIONS_HEAD = (
    "chooser", "least", "surely", "questions", "declined", "deadlines missed", "budgets exceeded",
    "best choices", "mean regret", "nine tenths below",
)  # fmt: skip
_COUNTS = ("questions", "declined", "missed", "blown", "best")


def decisions_section(rows: pl.DataFrame | None) -> str:
    """Return a table of choosers, nothing where nobody decided.

    `rows` are what query `decisions` says of the study.
    """
    if rows is None or rows.is_empty():
        return ""
    body = [
        [
            Cell(row["chooser"], is_number=False),
            Cell(row["minimize"], is_number=False),
            Cell(DASH if row["late"] is None else percent(100 * row["late"])),
            *(Cell(str(row[name])) for name in _COUNTS),
            Cell(percent(row["mean_regret_percent"])),
            Cell(percent(row["p90_regret_percent"])),
        ]
        for row in rows.to_dicts()
    ]
    return f"<h2>Who decides best what to rent</h2>{_DECISIONS_SAID}{table(_DECISIONS_HEAD, body)}"


# How wrong forecasts were that had been published before anybody measured.


_PUBLISHED_SAID = (
    "<p>These forecasts were written to a file before the first of the runs that judge them began. "
    "They are judged as they were published, by all runs of the study that began later, whatever "
    "later code forecasts. Errors are absolute.</p>"
)
_PUBLISHED_HEAD = (
    "system", "split", "mean error", "median", "largest", "inside the interval", "noise floor",
    "forecasts", "published, UTC", "first measured, UTC",
)  # fmt: skip
_ERRORS = ("mape", "median_ape", "max_ape", "inside_percent", "noise_floor")


def published_section(rows: pl.DataFrame | None) -> str:
    """Return a table of published forecasts, nothing where none was published.

    `rows` are what query `sealed` says of the study.
    """
    if rows is None or rows.is_empty():
        return ""
    body = [
        [
            Cell(row["system"], is_number=False),
            Cell((row["split"] or DASH).replace("_", " "), is_number=False),
            *(Cell(percent(row[name])) for name in _ERRORS),
            Cell(str(row["n"])),
            *(
                Cell(f"{row[name]:%Y-%m-%d %H:%M}", is_number=False)
                for name in ("sealed_at", "first_measured_at")
            ),
        ]
        for row in rows.to_dicts()
    ]
    shown = table(_PUBLISHED_HEAD, body)
    return f"<h2>Forecasts that were published before measuring</h2>{_PUBLISHED_SAID}{shown}"


# Where a round's figures come from: host, cluster, software, runs.


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
        ["what", "value"],
        [
            [Cell(name, is_number=False), Cell(value, is_number=False, wraps=True)]
            for name, value in facts.items()
        ],
    )
    return common + "<p></p>" + _runs(about)


def _runs(about: RoundDescription) -> str:
    runs = sorted(about.runs, key=lambda run: run.started_at)
    return table(["run", "purpose", "started, UTC", "seconds"], [_run(run) for run in runs])


def _run(run: Run) -> list[Cell]:
    return [
        Cell(run.run_id, is_number=False),
        Cell(run.purpose, is_number=False),
        Cell(f"{run.started_at:%Y-%m-%d %H:%M:%S}", is_number=False),
        Cell(f"{run.took_s:.1f}"),
    ]


def _listed(facts: dict[str, object]) -> str:
    return ", ".join(
        f"{key.replace('_', ' ')} {value if isinstance(value, str) else json.dumps(value)}"
        for key, value in facts.items()
    )
