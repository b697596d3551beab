"""Watching a member: a probe, its judge, and a second probe; what is wrong with its profiles."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from time import monotonic

import polars as pl

from fleet.drift import Judgement, Thresholds
from fleet.history import MetricFinding, confirmed, judge_readings, judged_probes, regimes
from fleet.members import WATCH, now
from fleet.readings import METRICS, readings
from fleet.schedule import Visits, last_probe, period_start, probes, watches
from forecasting import sanity
from profilers.clusters.fleet import RENTED
from profilers.renting.cap import BudgetExceeded
from profilers.watch.probe import UNITS
from studies import run_tables
from studies.measurement import profile
from studies.messages import Progress
from warehouse.landing import SCHEMAS, land, landed_runs
from warehouse.records import Run
from warehouse.warehouse import Warehouse

JUDGE = "drift"
"""The probe of runs that hold judgements."""
THRESHOLDS = Thresholds()


def watch(visits: Visits, warehouse: Warehouse, progress: Progress) -> pl.DataFrame:
    """Probe a member, judge it by its history, and probe again at once if it seems to have changed.

    A probe that was landed and never judged, because its process died, is judged in place of a new
    one.

    Args:
        visits: those that watch a member.
        warehouse: the history; it has what has landed afterwards.
        progress: told what runs.

    Returns:
        The rows of `raw.judgement` that have landed, without run_id.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed.
    """
    warehouse.load()
    first = _unjudged(visits, warehouse) or _probed(visits, warehouse, progress)
    findings = _judged(visits, first, warehouse)
    second = None
    if any(finding.alarm for finding in findings):
        told = ", ".join(_in_words(finding) for finding in findings if finding.alarm)
        progress.warn(f"{visits.member.node_type} seems to have changed: {told}; probing again")
        fresh = watches(visits.member, landed_runs(warehouse.landing))
        second = _probed(fresh, warehouse, progress)
    same: tuple[str, ...] = ()
    if second:
        again = _judged(visits, second, warehouse, but=first)
        same = confirmed(findings, again, THRESHOLDS)
    rows = _rows(visits, findings, first, second, same)
    _land(first, rows, _spreads(findings), warehouse)
    warehouse.load()
    if same:
        progress.warn(
            f"{visits.member.node_type} has changed: {', '.join(same)}; its profiles are stale"
        )
    return rows


def _probed(visits: Visits, warehouse: Warehouse, progress: Progress) -> Run:
    """Probe a member once, and load it."""
    round_ = profile(visits.round_, WATCH, warehouse.landing, progress)
    warehouse.load()
    return max(round_.runs_of(WATCH).values(), key=lambda run: run.started_at)


def _unjudged(visits: Visits, warehouse: Warehouse) -> Run | None:
    """Return the last probe if nothing has judged it, or been confirmed by it; None if it has."""
    last = last_probe(visits.runs)
    return last if last and last.run_id not in judged_probes(warehouse.home).known else None


def _judged(
    visits: Visits, fresh: Run, warehouse: Warehouse, but: Run | None = None
) -> tuple[MetricFinding, ...]:
    """Judge a probe by those before it, on links of the same speed; the probe `but` is left out."""
    known = watches(visits.member, landed_runs(warehouse.landing)).runs
    earlier = [
        run
        for run in probes(known)
        if run.started_at < fresh.started_at
        and run != but
        and run.config.get("link_mbps") == fresh.config.get("link_mbps")
    ]
    past = judged_probes(warehouse.home)
    going_on = regimes((run.run_id for run in earlier), past.changes, past.odd)
    rows = readings(_windows([*earlier, fresh], warehouse))
    return judge_readings(rows, going_on, fresh.run_id, THRESHOLDS)


def _windows(runs: Sequence[Run], warehouse: Warehouse) -> pl.DataFrame:
    """Return the windows of probes, as `readings` takes them."""
    samples = warehouse.visible("sample", [run.run_id for run in runs])
    of = pl.DataFrame(
        [(run.run_id, run.started_at, _boot(run), _machine(run)) for run in runs],
        schema=["run_id", "started_at", "boot", "machine"],
        orient="row",
    )
    return samples.join(of, on="run_id").drop_nulls(["window", "value"])


def _boot(run: Run) -> str:
    return str(run.host.get("boot_id", ""))


def _machine(run: Run) -> str:
    """Return which machine a run was on, in any text: rented ones end with their visit."""
    return f"{_boot(run)} {run.run_id}" if run.backend in RENTED else run.host_id


def _rows(
    visits: Visits,
    findings: Sequence[MetricFinding],
    first: Run,
    second: Run | None,
    same: Sequence[str],
) -> pl.DataFrame:
    told = [
        {
            "node_type": visits.member.node_type,
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
    return pl.DataFrame(told, infer_schema_length=None).select(names)


def _spreads(findings: Sequence[MetricFinding]) -> dict[str, float]:
    """Return by how many per cent machines of a rented type differ, by metric."""
    return {
        f"spread_percent_{judgement.metric}": round(100 * judgement.spread, 1)
        for judgement in (finding.judgement for finding in findings)
        if judgement.spread is not None
    }


def _land(
    first: Run, rows: pl.DataFrame, spreads: Mapping[str, float], warehouse: Warehouse
) -> None:
    at = now()
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
    land(warehouse.landing, run, None, {"judgement": rows})


def _worse_percent(judgement: Judgement) -> float | None:
    if judgement.expected is None:
        return None
    ratio = judgement.value / judgement.expected
    return 100 * ((ratio if METRICS[judgement.metric].more_is_slower else 1 / ratio) - 1)


def _in_words(finding: MetricFinding) -> str:
    if finding.outcome == "ended":
        return f"{finding.judgement.metric} as it was before its change"
    judgement = finding.judgement
    said = f"{judgement.metric} {_worse_percent(judgement) or 0:+.0f} % worse"
    if judgement.spread is None:
        return said
    of = "this machine" if judgement.machines == 1 else f"the mean of {judgement.machines} machines"
    return f"{said} ({of}; machines of the type differ by {100 * judgement.spread:.0f} %)"


# A member's profiles: what is wrong with them, and how long a visit may still take.


_LATE = timedelta(days=1)
"""How much later than its turn a visit may be: a host that was off has a day to catch up."""


def profile_findings(
    visits: Visits, landing: Path, now: datetime, drifted_at: datetime | None
) -> Iterator[str]:
    """Yield what is wrong: old profiles, unfinished visits, drift, links that are not as shaped.

    Args:
        visits: those to a member.
        landing: where its runs have landed.
        now: UTC.
        drifted_at: when the type was last found to have changed, if it was.
    """
    yield from _age(visits, now)
    if drifted_at is not None and (visits.last_began is None or visits.last_began < drifted_at):
        yield f"it has changed at {drifted_at:%Y-%m-%d %H:%M}, and its profiles are from before"
    for need, run in visits.latest.runs_of("links").items():
        yield from sanity.odd_links(run_tables.table(landing, run, "link"), need.subject.link_mbps)


def _age(visits: Visits, now: datetime) -> Iterator[str]:
    """Yield that profiles are older than two turns, or that the visit under way lacks some."""
    if visits.last_ended is None:
        yield "it has never been profiled as a whole"
    else:
        began = period_start(visits.every, visits.member.at, now)
        previous = period_start(visits.every, visits.member.at, began - timedelta(seconds=1))
        if visits.last_ended < previous - _LATE:
            yield f"its profiles are of {visits.last_ended:%Y-%m-%d}: older than one {visits.every}"
    if visits.round_.runs:
        lacking = ", ".join(dict.fromkeys(need.probe for need in visits.round_.missing))
        yield f"its visit {visits.round_.repeat} is unfinished: {lacking}"


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
