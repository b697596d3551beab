"""What the published history says of the fleet: its runs, and the changes that were confirmed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import polars as pl

from fleet.readings import in_words
from fleet.regimes import Change
from warehouse.home import HISTORY
from warehouse.records import Backend, Run
from warehouse.tables import JSON_COLUMNS
from warehouse.warehouse import QUERIES, read_only

Whose = tuple[str, Backend, str]
"""A node type, where it is, and on which host."""


def runs(home: Path) -> tuple[Run, ...]:
    """Return the runs that the fleet of a home has made, in order of their starts.

    The database is not opened, only its published copy: it is never locked.
    """
    found = _published(home, "fleet_runs")
    return tuple(
        Run.model_validate({**row, **{name: json.loads(row[name]) for name in JSON_COLUMNS}})
        for row in found.to_dicts()
    )


def drifted_at(home: Path) -> Mapping[Whose, datetime]:
    """Return when the last confirmed alarm of each node type was raised."""
    rows = _published(home, "last_alarms").rows()
    return {(node_type, backend, host): at for node_type, backend, host, at in rows}


@dataclass(frozen=True)
class JudgedProbes:
    """Probes that have been judged, the changes they raised, and those of unconfirmed alarms."""

    known: frozenset[str]
    changes: Mapping[str, Change]
    odd: frozenset[str]


def judged_probes(home: Path) -> JudgedProbes:
    """Return what has been made of the probes that watch a home's fleet."""
    rows = list(_published(home, "judged_probes").iter_rows())
    return JudgedProbes(
        frozenset(run_id for run_id, *_ in rows),
        {
            run_id: Change(frozenset(metrics), ended)
            for run_id, metrics, ended, _ in rows
            if metrics
        },
        frozenset(run_id for run_id, _, _, is_odd in rows if is_odd),
    )


def last_judgements(home: Path) -> Mapping[Whose, str]:
    """Return, by node type, what the last watch made of it: its largest change, in words."""
    rows = _published(home, "last_judgements").rows()
    return {
        (node_type, backend, host): _in_words(*said) for node_type, backend, host, *said in rows
    }


def _in_words(
    metric: str,
    change: float | None,
    outcome: str,
    alarm: bool,
    confirmed: bool | None,
    at: datetime,
) -> str:
    if change is None:
        return "too little history"
    if alarm:
        known = "confirmed" if confirmed else "not confirmed"
    else:
        known = {"slower": "still slower", "faster": "faster"}.get(outcome, "none")
    return f"{known}: {in_words(metric)} {change:+.1f} % ({at:%m-%d})"


def of_all_types(home: Path, query: str) -> pl.DataFrame:
    """Return the rows of a query of `warehouse/queries` that asks for one node type or for each."""
    return _published(home, query, {"node_type": None})


def _published(home: Path, query: str, values: Mapping[str, object] | None = None) -> pl.DataFrame:
    """Return the rows of a query with its parameters, none where nothing has been published."""
    if not (home / HISTORY).exists():
        return pl.DataFrame()
    return read_only(home, (QUERIES / f"{query}.sql").read_text(), values)
