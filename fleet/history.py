"""The fleet's published history: its runs, its probes, and confirmed changes."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

import polars as pl

from fleet.readings import in_words
from warehouse.home import HISTORY
from warehouse.records import Backend, Run
from warehouse.sql import read_only
from warehouse.tables import JSON_COLUMNS
from warehouse.warehouse import QUERIES

NodeTypeKey = tuple[str, Backend, str]
"""A node type, where it is, and on which host."""


def runs(home: Path, node_type: str | None = None) -> tuple[Run, ...]:
    """Return the runs of the last two visits of each kind to a home's node types.

    The database is not opened, only its published copy: it is never locked. Runs lack what they say
    of host and software, and were checked when they were loaded.

    Args:
        home: whose fleet.
        node_type: of this one alone; None: of all.
    """
    rows = published(home, "fleet_runs", {"node_type": node_type})
    return tuple(
        Run.model_construct(**{**row, **{name: json.loads(row[name]) for name in JSON_COLUMNS}})
        for row in rows.iter_rows(named=True)
    )


def drifted_at(home: Path) -> Mapping[NodeTypeKey, datetime]:
    """Return when the last confirmed alarm of each node type was raised."""
    alarms = published(home, "confirmed_alarms")
    if not alarms.width:
        return {}
    columns = alarms.sort("raised_at").select("node_type", "backend", "host_id", "raised_at")
    return {(node_type, backend, host): at for node_type, backend, host, at in columns.iter_rows()}


def judged_probes(home: Path, run_ids: Sequence[str] | None = None) -> frozenset[str]:
    """Return those of some probes, or of all, that were judged, or confirmed another's alarm."""
    rows = published(home, "judged_probes", {"run_ids": run_ids})
    return frozenset(rows["run_id"]) if rows.width else frozenset()


def watches(home: Path, node_type: str, most: int | None = None) -> pl.DataFrame:
    """Return the newest probes that watched a node type, and all that found a change.

    Args:
        home: whose fleet.
        node_type: its name.
        most: so many on each host, at most; None: all.

    Returns:
        Columns node_type, backend, host_id, run_id, started_at, link_mbps, boot, metrics (what
        changed) and odd (an alarm that was not confirmed), in order of time.
    """
    return published(home, "watches", {"node_type": node_type, "most": most})


def watch_samples(home: Path, run_ids: Sequence[str]) -> pl.DataFrame:
    """Return run_id, metric, window and value of each window of probes."""
    return published(home, "watch_samples", {"run_ids": list(run_ids)})


def last_judgements(home: Path) -> Mapping[NodeTypeKey, str]:
    """Return, by node type, what the last watch made of it: its largest change, in words."""
    rows = published(home, "last_judgements").rows()
    return {
        (node_type, backend, host): _in_words(*judgement)
        for node_type, backend, host, *judgement in rows
    }


def _in_words(
    metric: str,
    change: float | None,
    outcome: str,
    alarm: bool,
    confirmed: bool | None,
    at: datetime,
    spread_percent: float | None,
) -> str:
    if change is None:
        return "too little history"
    known = "faster" if outcome == "faster" else "none"
    if alarm:
        known = "confirmed" if confirmed else "not confirmed"
    machines = "" if spread_percent is None else f", machines ±{spread_percent:.0f} %"
    return f"{known}: {in_words(metric)} {change:+.1f} %{machines} ({at:%m-%d})"


def published(home: Path, query: str, values: Mapping[str, object] | None = None) -> pl.DataFrame:
    """Return the rows of a query with its parameters, none where nothing has been published."""
    if not (home / HISTORY).exists():
        return pl.DataFrame()
    return read_only(home, (QUERIES / f"{query}.sql").read_text(), values)
