"""Tables of the fleet's page: its members, its alarms, its probes, and what is stale."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import polars as pl

from fleet.page import FleetPage
from reports.html_table import Cell, table
from reports.wording import DASH, percent
from studies.words import count

MOST_ROWS = 50
"""Rows of a table that grows; the rest is counted, and a command lists it."""
_NOTHING = '<p class="soft">{}</p>'
_Row = Mapping[str, Any]


def status(rows: pl.DataFrame) -> str:
    """Return the table of members, as `stepcast fleet status` prints it."""
    head = ("node type", "last profiled", "drift", "next visit", "minutes", "dollars", "state")
    body = [
        [
            *(_text(row[name]) for name in ("node_type", "last_profiled", "drift", "next")),
            Cell(f"{row['month_minutes']:.1f}"),
            Cell(DASH if row["month_usd"] is None else f"{row['month_usd']:.4f}"),
            _text(row["state"]),
        ]
        for row in rows.to_dicts()
    ]
    note = '<p class="soft">Minutes and dollars are those of this month.</p>'
    return table(head, body) + note if body else ""


def alarms(rows: pl.DataFrame) -> str:
    """Return the table of alarms, the newest first."""
    if rows.is_empty():
        return _NOTHING.format("None has been raised.")
    head = ("node type", "when", "what", "how", "change", "z", "confirmed", "probe, second probe")
    body = [
        [
            _text(row["name"]),
            _time(row["watched_at"]),
            _text(row["what"]),
            _text("as before" if row["outcome"] == "ended" else row["outcome"]),
            Cell(percent(row["change_percent"], signed=True)),
            Cell(DASH if row["robust_z"] is None else f"{row['robust_z']:+.1f}".replace("-", "−")),
            _text("yes" if row["confirmed"] else "no"),
            _text("\n".join(filter(None, (row["watched"], row["confirmed_by"])))),
        ]
        for row in rows.head(MOST_ROWS).to_dicts()
    ]
    shown = (
        "<p>Change: how much worse than expected. z: the same in standard deviations. "
        "<code>stepcast show RUN</code> shows a probe: its command, settings, host and price.</p>"
    )
    return shown + table(head, body) + _rest(rows.height, "alarm", "stepcast query alarms")


def probes(rows: pl.DataFrame, metrics: Sequence[str]) -> str:
    """Return a table of the probes in a picture, the newest first, folded away."""
    known = [metric for metric in metrics if metric in rows["what"]]
    body = [
        [
            _time(at),
            _text(run_id),
            *(Cell(percent(of.get(metric), signed=True)) for metric in known),
        ]
        for at, run_id, of in _by_probe(rows)
    ]
    title = f"{count(len(body), 'probe')}: runs, and the change of each metric"
    shown = table(("when", "run", *known), body[::-1])
    return f"<details><summary>{title}</summary>{shown}</details>"


def _by_probe(rows: pl.DataFrame) -> list[tuple[datetime, str, Mapping[str, float | None]]]:
    found: dict[str, tuple[datetime, str, dict[str, float | None]]] = {}
    columns = ("watched_at", "watched", "what", "change_percent")
    for at, run_id, what, change in rows.select(columns).iter_rows():
        found.setdefault(run_id, (at, run_id, {}))[2][what] = change
    return list(found.values())


def stale(page: FleetPage) -> str:
    """Return what is from before its type changed, and what mends that."""
    if page.stale.is_empty():
        return _NOTHING.format("Nothing: no type has changed after it was profiled.")
    head = ("node type", "changed", "what", "change", "stale runs", "stale fits", "what mends it")
    body = [
        [
            _text(row["name"]),
            _time(row["stale_since"]),
            _text(row["what"]),
            Cell(percent(row["change_percent"], signed=True)),
            Cell(str(row["runs"])),
            Cell(str(row["fits"])),
            _text(row["mends"]),
        ]
        for row in page.stale.to_dicts()
    ]
    note = (
        "<p>Runs and fits from before a type changed. They stay on record as they were measured; "
        "profiling the type anew, and forecasting anew, replaces them.</p>"
    )
    return note + table(head, body) + _stale_runs(page.stale_runs) + _stale_fits(page.stale_fits)


def _stale_runs(rows: pl.DataFrame) -> str:
    body = [
        [
            _text(row["name"]),
            _time(row["started_at"]),
            _text(row["probe"]),
            _text(row["study"]),
            _text(row["run_id"]),
        ]
        for row in rows.head(MOST_ROWS).to_dicts()
    ]
    shown = table(("node type", "measured", "probe", "study", "run"), body)
    rest = _rest(rows.height, "run", "stepcast query stale_runs")
    title = count(rows["run_id"].n_unique(), "stale run")
    return f"<details><summary>{title}</summary>{shown}{rest}</details>"


def _stale_fits(rows: pl.DataFrame) -> str:
    if rows.is_empty():
        return ""
    body = [
        [
            _text(row["name"]),
            _time(row["created_at"]),
            _text(row["system"]),
            Cell(str(row["stale_runs"])),
            _text(row["fit_id"]),
        ]
        for row in rows.head(MOST_ROWS).to_dicts()
    ]
    shown = table(("node type", "fitted", "system", "of them stale runs", "fit"), body)
    rest = _rest(rows.height, "fit", "stepcast query stale_fits")
    title = count(rows["fit_id"].n_unique(), "stale fit")
    return f"<details><summary>{title}</summary>{shown}{rest}</details>"


def _rest(rows: int, what: str, command: str) -> str:
    """Return how many rows are not shown, and what lists them."""
    if rows <= MOST_ROWS:
        return ""
    more = count(rows - MOST_ROWS, f"older {what}")
    return f'<p class="soft">And {more}: <code>{command}</code></p>'


def _text(value: str | None) -> Cell:
    return Cell(DASH if value is None else value, is_number=False)


def _time(at: datetime) -> Cell:
    return Cell(f"{at:%Y-%m-%d %H:%M}", is_number=False)
