"""Which earlier probes a new one is compared with: those since the last change, while it lasts.

A confirmed change begins a regime, and its end brings back the one before. Until a new regime has
probes enough to judge by, a probe is compared with the regime before: whether what has changed is
as it was again, and whether anything else has changed.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

import polars as pl

from fleet import drift
from fleet.drift import Judgement, Thresholds, judge

Outcome = Literal["too_few", "same", "slower", "faster", "ended"]


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


@dataclass(frozen=True)
class Finding:
    """What is made of one metric of a probe, and whether a second probe should confirm it."""

    judgement: Judgement
    outcome: Outcome
    alarm: bool


def regimes(
    probes: Iterable[str], changes: Mapping[str, Change], odd: Set[str]
) -> tuple[Regime, ...]:
    """Return the regimes that go on, the newest last.

    Args:
        probes: run ids in order of time.
        changes: by the probe that raised its alarm.
        odd: probes whose alarm was not confirmed: they tell nothing of what is usual.
    """
    found = [Regime(None)]
    for run_id in probes:
        change = changes.get(run_id)
        if change is not None and change.ended and len(found) > 1:
            found.pop()
        elif change is not None:
            found.append(Regime(change))
        if run_id not in odd:
            found[-1].probes.append(run_id)
    return tuple(found)


def judged(
    readings: pl.DataFrame, going_on: tuple[Regime, ...], fresh: str, thresholds: Thresholds
) -> tuple[Finding, ...]:
    """Judge a probe by the regimes that go on.

    Args:
        readings: of all these probes and of the fresh one (`fleet.readings.readings`).
        going_on: the regimes, the newest last.
        fresh: run id of the probe that is judged.
        thresholds: when a difference is an alarm.

    Returns:
        One finding for each metric that the probe has.
    """
    newest = going_on[-1]
    is_young = newest.change is not None and len(newest.probes) < thresholds.least_probes
    history = going_on[-2] if is_young else newest
    # Of a type that has become slower, becoming faster is the end of that.
    speed_ups = thresholds.speed_ups or newest.change is not None
    found = judge(
        readings.filter(pl.col("run_id").is_in(history.probes)),
        readings.filter(pl.col("run_id") == fresh),
        replace(thresholds, speed_ups=speed_ups),
    )
    plain = [Finding(one, one.verdict, one.alarm) for one in found]
    if not is_young or newest.change is None:
        return tuple(plain)
    changed = newest.change.metrics
    over = all(one.outcome == "same" for one in plain if one.judgement.metric in changed)
    return tuple(_in_change(one, over) if one.judgement.metric in changed else one for one in plain)


def _in_change(one: Finding, over: bool) -> Finding:
    """Return a finding of a metric that has changed: as it was again, or still as it became."""
    return replace(one, outcome="ended", alarm=True) if over else replace(one, alarm=False)


def confirmed(
    first: Sequence[Finding], second: Sequence[Finding], thresholds: Thresholds
) -> tuple[str, ...]:
    """Return the metrics of which a second, fresh probe says the same as the first one's alarms."""
    over = [{one.judgement.metric for one in some if _is_end(one)} for some in (first, second)]
    changed = drift.confirmed(
        [one.judgement for one in first if one.alarm and not _is_end(one)],
        [one.judgement for one in second],
        thresholds,
    )
    return (*changed, *sorted(over[0] & over[1]))


def _is_end(one: Finding) -> bool:
    return one.alarm and one.outcome == "ended"
