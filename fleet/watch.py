"""Watching a member: a probe, its judge, and a second probe; the seconds of a visit."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import monotonic
from types import MappingProxyType

import polars as pl

from fleet.drift import Judgement, Thresholds
from fleet.history import (
    Change,
    MetricFinding,
    Regime,
    confirmed,
    judge_readings,
    judged_probes,
    regimes,
    watch_samples,
    watches,
)
from fleet.members import WATCH, now
from fleet.readings import METRICS, readings
from fleet.schedule import Visits, last_probe
from profilers.clusters.fleet import RENTED
from profilers.renting.cap import BudgetExceeded
from profilers.watch.probe import UNITS
from studies.measurement import profile
from studies.messages import Progress
from studies.rounds import Round
from warehouse.landing import SCHEMAS, land, landed_run
from warehouse.records import ProbeFailed, Run
from warehouse.warehouse import Warehouse

JUDGE = "drift"
"""The probe of runs that hold judgements."""
THRESHOLDS = Thresholds()
_MOST_PROBES = 100
"""Of a type, so many of the newest are compared with: what is older says little of today."""
_AT_ONCE = 100
"""Types that are judged at once: their probes have half a million windows."""
_NO_RUNS: Mapping[str, Run] = MappingProxyType({})


Measure = Callable[[Round, str, Path, Progress], Round]
"""Runs what a round lacks of a probe, as `studies.measurement.profile`."""


def watch(
    members: Sequence[Visits],
    warehouse: Warehouse,
    progress: Progress,
    measure: Measure | None = None,
    clock: Callable[[], datetime] | None = None,
) -> pl.DataFrame:
    """Probe members, judge each by its history, and probe again those that seem to have changed.

    A probe that was landed and never judged, because its process died, is judged in place of a new
    one.

    Args:
        members: the visits that watch them, of members on one backend and host.
        warehouse: the history; it has what has landed afterwards.
        progress: told what runs.
        measure: runs probes; None: really.
        clock: tells when judgements are made, UTC; None: that of the wall.

    Returns:
        The rows of `raw.judgement` that have landed, without run_id.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed. What others found has landed too.
    """
    measure, clock = measure or profile, clock or now
    warehouse.load(recheck=False)
    failures: list[ProbeFailed] = []

    def probed(rounds: Mapping[str, Round]) -> dict[str, Round]:
        done = {}
        for name, round_ in rounds.items():
            try:
                done[name] = measure(round_, WATCH, warehouse.landing, progress)
            except ProbeFailed as failure:
                failures.append(failure)
        if rounds:
            warehouse.load(recheck=False)
        return done

    unjudged = _unjudged(members, warehouse)
    by_name = {visits.member.node_type: visits for visits in members}
    rounds = {name: visits.round_ for name, visits in by_name.items() if name not in unjudged}
    done = probed(rounds)
    first = unjudged | {name: _newest(round_) for name, round_ in done.items()}
    findings = _judged(first, warehouse)
    alarming = {
        name: done[name] if name in done else by_name[name].round_
        for name, metric_findings in findings.items()
        if any(finding.alarm for finding in metric_findings)
    }
    for name in alarming:
        alarms = ", ".join(_in_words(finding) for finding in findings[name] if finding.alarm)
        progress.warn(f"{name} seems to have changed: {alarms}; probing again")
    again = probed({name: _following(round_) for name, round_ in alarming.items()})
    second = {name: _newest(round_) for name, round_ in again.items()}
    second_findings = _judged(second, warehouse, first)
    rows = []
    for name, metric_findings in findings.items():
        if name in alarming and name not in second:
            continue  # the second probe failed: the first is judged with another one
        same = confirmed(metric_findings, second_findings.get(name, ()), THRESHOLDS)
        rows.append(_rows(name, metric_findings, first[name], second.get(name), same))
        _land(first[name], rows[-1], _spreads(metric_findings), warehouse.landing, clock())
        if same:
            progress.warn(f"{name} has changed: {', '.join(same)}; its profiles are stale")
    warehouse.load(recheck=False)
    if failures:
        raise failures[0]
    return pl.concat(rows, how="vertical_relaxed")


def _newest(round_: Round) -> Run:
    return max(round_.runs_of(WATCH).values(), key=lambda run: run.started_at)


def _following(round_: Round) -> Round:
    """Return the round itself if it lacks a probe, else the next one."""
    return round_ if round_.missing else replace(round_, repeat=round_.repeat + 1, runs=())


def _unjudged(members: Sequence[Visits], warehouse: Warehouse) -> dict[str, Run]:
    """Return by node type the last probe that nothing has judged, or been confirmed by it."""
    last = {
        visits.member.node_type: run.run_id
        for visits in members
        if (run := last_probe(visits.runs)) is not None
    }
    judged = judged_probes(warehouse.home, list(last.values()))
    return {
        name: landed_run(warehouse.landing / run_id)
        for name, run_id in last.items()
        if run_id not in judged
    }


def _judged(
    fresh: Mapping[str, Run], warehouse: Warehouse, but: Mapping[str, Run] = _NO_RUNS
) -> dict[str, tuple[MetricFinding, ...]]:
    """Judge probes by those before them on links of the same speed, those in `but` left out.

    Args:
        fresh: a probe by node type.
        warehouse: the history, which has them.
        but: another one by node type.
    """
    findings: dict[str, tuple[MetricFinding, ...]] = {}
    for start in range(0, len(fresh), _AT_ONCE):
        names = list(fresh)[start : start + _AT_ONCE]
        known = watches(warehouse.home, names, _MOST_PROBES)
        going_on = {name: _regimes(known, fresh[name], but.get(name)) for name in names}
        compared = {fresh[name].run_id: name for name in names} | {
            run_id: name
            for name in names
            for regime in going_on[name][-2:]
            for run_id in regime.probes
        }
        figures = readings(_windows(known.filter(pl.col("run_id").is_in([*compared])), warehouse))
        type_of = pl.col("run_id").replace_strict(compared, return_dtype=pl.String)
        by_type = figures.with_columns(node_type=type_of).partition_by("node_type", as_dict=True)
        for name in names:
            rows = by_type[name,]
            findings[name] = judge_readings(rows, going_on[name], fresh[name].run_id, THRESHOLDS)
    return findings


def _regimes(known: pl.DataFrame, fresh: Run, but: Run | None) -> tuple[Regime, ...]:
    """Return the regimes that a probe is in, by those before it that are comparable."""
    link = pl.lit(fresh.config.get("link_mbps"), pl.Float64)
    earlier = known.filter(
        pl.col("node_type") == fresh.study.removeprefix(f"{WATCH}."),
        pl.col("backend") == fresh.backend,
        pl.col("host_id") == fresh.host_id,
        pl.col("link_mbps").eq_missing(link),
        pl.col("started_at") < fresh.started_at,
        pl.col("run_id") != ("" if but is None else but.run_id),
    )
    changed = earlier.filter(pl.col("metrics").is_not_null())
    changes = {
        run_id: Change(frozenset(metrics), ended)
        for run_id, metrics, ended in changed.select("run_id", "metrics", "ended").iter_rows()
    }
    return regimes(earlier["run_id"], changes, set(earlier.filter("odd")["run_id"]))


def _windows(probes: pl.DataFrame, warehouse: Warehouse) -> pl.DataFrame:
    """Return the windows of probes, as `readings` takes them.

    Each rented machine ends with its visit, so it is told by the run.
    """
    rented = pl.col("backend").is_in(RENTED)
    machine = pl.when(rented).then(pl.format("{} {}", "boot", "run_id")).otherwise("host_id")
    of = probes.select("run_id", "started_at", "boot", machine=machine)
    return watch_samples(warehouse.home, of["run_id"].to_list()).join(
        of, on="run_id", maintain_order="left"
    )


def _rows(
    node_type: str,
    findings: Sequence[MetricFinding],
    first: Run,
    second: Run | None,
    same: Sequence[str],
) -> pl.DataFrame:
    rows = [
        {
            "node_type": node_type,
            "metric": (judgement := finding.judgement).metric,
            "unit": UNITS[judgement.metric],
            "value": judgement.value,
            "expected": judgement.expected,
            "change_percent": _worse_percent(judgement),
            "robust_z": judgement.z,
            "earlier_n": judgement.probes,
            "outcome": finding.outcome,
            "alarm": finding.alarm,
            "confirmed": judgement.metric in same if finding.alarm else None,
            "watched": first.run_id,
            "confirmed_by": second.run_id if second else None,
        }
        for finding in findings
    ]
    names = SCHEMAS["judgement"].names[1:]
    return pl.DataFrame(rows, infer_schema_length=None).select(names)


def _spreads(findings: Sequence[MetricFinding]) -> dict[str, float]:
    """Return by how many per cent machines of a rented type differ, by metric."""
    return {
        f"spread_percent_{judgement.metric}": round(100 * judgement.spread, 1)
        for judgement in (finding.judgement for finding in findings)
        if judgement.spread is not None
    }


def _land(
    first: Run, rows: pl.DataFrame, spreads: Mapping[str, float], landing: Path, at: datetime
) -> None:
    run = first.model_copy(
        update={
            "run_id": f"{at:%Y%m%dT%H%M%S}-{JUDGE}-{uuid.uuid4().hex[:8]}",
            "probe": JUDGE,
            "started_at": at,
            "ended_at": at,
            "config": {
                "watched": first.run_id,
                "z": THRESHOLDS.z,
                "change": THRESHOLDS.change,
                **spreads,
            },
            "cost_usd": None,
        }
    )
    land(landing, run, None, {"judgement": rows})


def _worse_percent(judgement: Judgement) -> float | None:
    if judgement.expected is None:
        return None
    ratio = judgement.value / judgement.expected
    return 100 * ((ratio if METRICS[judgement.metric].more_is_slower else 1 / ratio) - 1)


def _in_words(finding: MetricFinding) -> str:
    if finding.outcome == "ended":
        return f"{finding.judgement.metric} as it was before its change"
    judgement = finding.judgement
    text = f"{judgement.metric} {_worse_percent(judgement) or 0:+.0f} % worse"
    if judgement.spread is None:
        return text
    of = "this machine" if judgement.machines == 1 else f"the mean of {judgement.machines} machines"
    return f"{text} ({of}; machines of the type differ by {100 * judgement.spread:.0f} %)"


class Budget:
    """The seconds of a visit, by a clock that nobody can set.

    Args:
        most_s: that it may take.
        spent_s: what an interrupted part of it has taken.
        clock: seconds that only grow.
    """

    def __init__(
        self, most_s: float, spent_s: float = 0.0, clock: Callable[[], float] = monotonic
    ) -> None:
        self._most_s, self._clock = most_s, clock
        self._began_s = clock() - spent_s

    @property
    def left_s(self) -> float:
        """What is left."""
        return max(self._most_s - (self._clock() - self._began_s), 0.0)

    def may_take(self, expected_s: float) -> None:
        """Refuse what takes longer than is left.

        Raises:
            BudgetExceeded: it does.
        """
        if expected_s > self.left_s:
            raise BudgetExceeded(
                f"the next run takes about {_minutes(expected_s)}, and {_minutes(self.left_s)} of "
                f"{_minutes(self._most_s)} are left; the next visit goes on"
            )


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.1f} min"
