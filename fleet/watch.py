"""Watching a member: a probe, its judge, and a second probe; the seconds of a visit."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from time import monotonic

import polars as pl

from fleet.drift import ALARM_CHANGE, ALARM_Z, Judgement
from fleet.history import (
    Change,
    Regime,
    confirmed,
    judge_readings,
    judged_probes,
    regimes,
    watch_samples,
    watches,
)
from fleet.members import WATCH, now
from fleet.notice import tell
from fleet.readings import METRICS, in_words, readings
from fleet.schedule import Visits, last_probe
from profilers.clusters.fleet import RENTED
from profilers.renting.cap import BudgetExceeded
from profilers.watch.probe import UNITS
from studies.measurement import profile
from studies.messages import Progress
from studies.rounds import Round
from warehouse.landing import land, landed_run
from warehouse.records import Run
from warehouse.tables import SCHEMAS
from warehouse.warehouse import Warehouse

JUDGE = "drift"
"""The probe of runs that hold judgements."""
_MOST_PROBES = 100
"""Of a type, so many of the newest are compared with: what is older says little of today."""


def watch(visits: Visits, warehouse: Warehouse, progress: Progress) -> pl.DataFrame:
    """Probe a member, judge it by its history, and probe again what seems to have changed.

    A probe that was landed and never judged, because its process died, is judged in place of a new
    one.

    Args:
        visits: those that watch the member.
        warehouse: the history; it has what has landed afterwards.
        progress: told what runs.

    Returns:
        The rows of `raw.judgement` that have landed, without run_id.

    Raises:
        ProbeFailed: a probe failed; its failed run has landed. If it was the second one, the first
            is judged with another one at the next visit.
    """
    warehouse.load(recheck=False)
    name, round_ = visits.member.node_type, visits.round_
    same: tuple[str, ...] = ()
    last, second = last_probe(visits.runs), None
    if last is None or last.run_id in judged_probes(warehouse.home, [last.run_id]):
        round_, first = _probed(round_, warehouse, progress)
    else:
        first = landed_run(warehouse.landing / last.run_id)
    judgements = _judged(first, warehouse)
    if alarms := ", ".join(_in_words(judgement) for judgement in judgements if judgement.alarm):
        progress.warn(f"{name} seems to have changed: {alarms}; probing again")
        following = replace(round_, repeat=round_.repeat + 1, runs=())
        _, second = _probed(round_ if round_.missing else following, warehouse, progress)
        same = confirmed(judgements, _judged(second, warehouse, but=first))
    rows = _rows(name, judgements, first, second, same)
    if same:  # before it lands: who dies meanwhile judges it again, and tells it again
        tell(*_notice(name, first, rows), progress.warn)
    _land(first, rows, judgements, warehouse.landing, now())
    if same:
        progress.warn(f"{name} has changed: {', '.join(same)}; its profiles are stale")
    warehouse.load(recheck=False)
    return rows


def _probed(round_: Round, warehouse: Warehouse, progress: Progress) -> tuple[Round, Run]:
    """Return a round with the probe that it lacked, and that probe; both are in the history."""
    try:
        round_ = profile(round_, WATCH, warehouse.landing, progress)
    finally:
        warehouse.load(recheck=False)
    return round_, max(round_.runs_of(WATCH).values(), key=lambda run: run.started_at)


def _judged(fresh: Run, warehouse: Warehouse, but: Run | None = None) -> tuple[Judgement, ...]:
    """Judge a probe by those before it on links of the same speed, but for one.

    The history has it.
    """
    node_type = fresh.study.removeprefix(f"{WATCH}.")
    known = watches(warehouse.home, node_type, _MOST_PROBES)
    going_on = _regimes(known, fresh, but)
    compared = [fresh.run_id, *(run_id for regime in going_on[-2:] for run_id in regime.probes)]
    figures = readings(_windows(known.filter(pl.col("run_id").is_in(compared)), warehouse))
    return judge_readings(figures, going_on, fresh.run_id)


def _regimes(known: pl.DataFrame, fresh: Run, but: Run | None) -> tuple[Regime, ...]:
    """Return the regimes that a probe is in, by those before it that are comparable."""
    link = pl.lit(fresh.config.get("link_mbps"), pl.Float64)
    earlier = known.filter(
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
    judgements: Sequence[Judgement],
    first: Run,
    second: Run | None,
    same: Sequence[str],
) -> pl.DataFrame:
    rows = [
        {
            "node_type": node_type,
            "metric": judgement.metric,
            "unit": UNITS[judgement.metric],
            "value": judgement.value,
            "expected": judgement.expected,
            "change_percent": _worse_percent(judgement),
            "robust_z": judgement.z,
            "earlier_n": judgement.probes,
            "outcome": judgement.verdict,
            "alarm": judgement.alarm,
            "confirmed": judgement.metric in same if judgement.alarm else None,
            "watched": first.run_id,
            "confirmed_by": second.run_id if second else None,
        }
        for judgement in judgements
    ]
    names = SCHEMAS["judgement"].names[1:]
    return pl.DataFrame(rows, infer_schema_length=None).select(names)


def _notice(name: str, first: Run, rows: pl.DataFrame) -> tuple[str, Mapping[str, str]]:
    """Return what people are told of a confirmed change: a title, and where and what changed."""
    changed = rows.filter("confirmed").select("metric", "outcome", "change_percent").rows()
    ended = all(outcome == "ended" for _, outcome, _ in changed)
    title = f"Stepcast: {name} {'is as it was before its change' if ended else 'has changed'}"
    return title, {
        "node_type": name,
        "backend": first.backend,
        "host": first.host_id,
        "state": "ended" if ended else "changed",
        "changes": ", ".join(
            f"{in_words(what)} "
            + (f"{-by:.1f} % better" if by and by < 0 else f"{by or 0:+.1f} % worse")
            for what, _, by in changed
        ),
        "raised_at": f"{first.started_at:%Y-%m-%d %H:%M} UTC",
    }


def _land(
    first: Run, rows: pl.DataFrame, judgements: Sequence[Judgement], landing: Path, at: datetime
) -> None:
    """Land judgements, with by how many per cent machines of a rented type differ."""
    run = first.model_copy(
        update={
            "run_id": f"{at:%Y%m%dT%H%M%S}-{JUDGE}-{uuid.uuid4().hex[:8]}",
            "probe": JUDGE,
            "started_at": at,
            "ended_at": at,
            "config": {
                "watched": first.run_id,
                "z": ALARM_Z,
                "change": ALARM_CHANGE,
                **{
                    f"spread_percent_{judgement.metric}": round(100 * judgement.spread, 1)
                    for judgement in judgements
                    if judgement.spread is not None
                },
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


def _in_words(judgement: Judgement) -> str:
    if judgement.verdict == "ended":
        return f"{judgement.metric} as it was before its change"
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
