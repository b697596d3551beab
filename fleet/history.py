"""The fleet's published history: its runs, confirmed changes, and the probes since the last one."""

import json
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from fleet import drift
from fleet.drift import Judgement
from fleet.readings import in_words
from warehouse.home import HISTORY
from warehouse.records import Backend, Run
from warehouse.sql import read_only
from warehouse.tables import JSON_COLUMNS
from warehouse.warehouse import QUERIES

# Which earlier probes a new one is compared with: those since the last change, while it lasts.
#
# A confirmed change begins a regime, and its end brings back the one before. Until a new regime has
# probes enough to judge by, a probe is compared with the regime before: whether what has changed is
# as it was again, and whether anything else has changed.


@dataclass(frozen=True)
class Change:
    """A change that a second probe confirmed: of which metrics, and whether it was one's end."""

    metrics: frozenset[str]
    ended: bool


@dataclass(frozen=True)
class Regime:
    """The probes since a change, by their run ids; `change` is None before the first one."""

    change: Change | None
    probes: list[str] = field(default_factory=list)


def regimes(
    probes: Iterable[str], changes: Mapping[str, Change], odd: Set[str]
) -> tuple[Regime, ...]:
    """Return the regimes that go on, the newest last.

    Args:
        probes: run ids in order of time.
        changes: by the probe that raised its alarm.
        odd: probes whose alarm was not confirmed: they tell nothing of what is usual.
    """
    regimes = [Regime(None)]
    for run_id in probes:
        change = changes.get(run_id)
        if change is not None and change.ended and len(regimes) > 1:
            regimes.pop()
        elif change is not None:
            regimes.append(Regime(change))
        if run_id not in odd:
            regimes[-1].probes.append(run_id)
    return tuple(regimes)


def judge_readings(
    readings: pl.DataFrame, going_on: tuple[Regime, ...], fresh: str
) -> tuple[Judgement, ...]:
    """Judge a probe by the regimes that go on.

    Args:
        readings: of all these probes and of the fresh one (`fleet.readings.readings`).
        going_on: the regimes, the newest last.
        fresh: run id of the probe that is judged.

    Returns:
        One for each metric that the probe has.
    """
    newest = going_on[-1]
    is_young = newest.change is not None and len(newest.probes) < drift.LEAST_PROBES
    history = going_on[-2] if is_young else newest
    judgements = drift.judge(
        readings.filter(pl.col("run_id").is_in(history.probes)),
        readings.filter(pl.col("run_id") == fresh),
        since=readings.filter(pl.col("run_id").is_in(newest.probes if is_young else [])),
        # Of a type that has become slower, becoming faster is the end of that.
        speed_ups=newest.change is not None,
    )
    if not is_young or newest.change is None:
        return judgements
    changed = newest.change.metrics
    # One rented machine that is as they were does not say that all are again.
    over = all(
        judgement.verdict == "same" and judgement.spread is None
        for judgement in judgements
        if judgement.metric in changed
    )
    # A metric that has changed is as it was again, or still as it became.
    now: dict[str, Any] = {"verdict": "ended", "alarm": True} if over else {"alarm": False}
    return tuple(
        replace(judgement, **now) if judgement.metric in changed else judgement
        for judgement in judgements
    )


def confirmed(first: Sequence[Judgement], second: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the metrics of which a second, fresh probe says the same as the first one's alarms."""
    ends = [
        {judgement.metric for judgement in judgements if judgement.verdict == "ended"}
        for judgements in (first, second)
    ]
    changed = [judgement for judgement in first if judgement.verdict != "ended"]
    return (*drift.confirmed(changed, second), *sorted(ends[0] & ends[1]))


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
        changed), ended (whether that was a change's end) and odd (an alarm that was not confirmed),
        in order of time.
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
    if alarm:
        known = "confirmed" if confirmed else "not confirmed"
    else:
        known = {"slower": "still slower", "faster": "faster"}.get(outcome, "none")
    machines = "" if spread_percent is None else f", machines ±{spread_percent:.0f} %"
    return f"{known}: {in_words(metric)} {change:+.1f} %{machines} ({at:%m-%d})"


def published(home: Path, query: str, values: Mapping[str, object] | None = None) -> pl.DataFrame:
    """Return the rows of a query with its parameters, none where nothing has been published."""
    if not (home / HISTORY).exists():
        return pl.DataFrame()
    return read_only(home, (QUERIES / f"{query}.sql").read_text(), values)
