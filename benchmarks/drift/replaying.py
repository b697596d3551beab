"""A hundred days of a node type, drawn from probes that landed, judged as a fleet judges them.

Each day a quiet probe; from some day on, which is drawn too, slower ones. An alarm is followed by a
second probe at once: of quiet days the one that was measured next, because slow minutes come in a
row; of slower nodes another one of them. A threshold is chosen on one half of the probes and judged
on the other.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from pathlib import Path

import polars as pl

from benchmarks.drift.collecting import in_words
from benchmarks.drift.injecting import Injection, What
from benchmarks.drift.landed import Probed, injected, quiet
from fleet.drift import Judgement, Thresholds, confirmed, judge
from profilers import watch
from warehouse.records import BadInput

DAYS = 100
BURN_IN_DAYS = 14
"""First days, of which nothing is counted: a fleet does not know what is usual yet."""
MOST_DAYS = 5
"""What has not been found by then is missed."""
LEAST_BY = 0.1
"""What is slower by so much or more has to be found."""
Z = (2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)
"""Thresholds that are tried."""
TELLS: dict[What, frozenset[str]] = {
    "links": frozenset({watch.TO_SERVER, watch.FROM_SERVER}),
    "cpu_share": frozenset({watch.CPU_SHARE, watch.STEP_TIME}),
    "memory": frozenset({watch.MEMORY}),
}
"""Metrics of which a confirmed alarm has found what was made slower; of another one it is false."""
_LEAST_PROBES = 2
"""Of anything that is made slower, in each half: one raises the alarm, another confirms it."""
_FOUND = {
    "half": pl.Int8,
    "z": pl.Float64,
    "seed": pl.Int32,
    "what": pl.String,
    "by": pl.Float64,
    "probes": pl.Int32,
    "days": pl.Int32,
}
_QUIET = {
    "half": pl.Int8,
    "z": pl.Float64,
    "seed": pl.Int32,
    "days": pl.Int32,
    "alarms": pl.Int32,
    "confirmed": pl.Int32,
}


@dataclass(frozen=True)
class Replayed:
    """What replays came to.

    Attributes:
        found: a row for each half, threshold, seed and injection: what was made slower, by which
            part, and the probes (seconds ones included) and days until it was confirmed; null:
            missed.
        quiet: a row for each half, threshold and seed: quiet days, alarms, confirmed ones.
    """

    found: pl.DataFrame
    quiet: pl.DataFrame


@dataclass
class _Fleet:
    """A node type's history as it grows."""

    thresholds: Thresholds
    history: pl.DataFrame

    def probe(self, one: Probed) -> tuple[Judgement, ...]:
        """Judge a probe, which its own figures from another day do not help, and remember it."""
        earlier = self.history.filter(pl.col("run_id") != one.run_id)
        judged = judge(earlier, one.readings, self.thresholds)
        alarmed = pl.col("metric").is_in([of.metric for of in judged if of.alarm])
        self.history = pl.concat([self.history, one.readings.with_columns(alarmed=alarmed)])
        return judged


def replay(
    probes: Sequence[Probed],
    thresholds: Thresholds,
    *,
    seeds: int,
    where: Path,
    say: Callable[[str], None] = lambda _: None,
) -> Replayed:
    """Replay with each of `Z`, on each half of the probes.

    Args:
        probes: of one node type, all that landed.
        thresholds: with all of `Z` in turn.
        seeds: replays of each.
        where: the folder they are from, for messages.
        say: told what runs now.

    Raises:
        BadInput: too few probes.
    """
    found, calm = [], []
    for half, some in enumerate(halves(probes, where)):
        for z in Z:
            say(f"half {half + 1} of 2, z {z:g}: {seeds} × {DAYS} days")
            for seed in range(seeds):
                days = _Days(some, replace(thresholds, z=z), random.Random(f"{half} {seed}"))
                calm.append((half, z, seed, DAYS - BURN_IN_DAYS, *days.false_alarms))
                found += [(half, z, seed, one.what, one.by, *days.found(one)) for one in days.kinds]
    return Replayed(
        pl.DataFrame(found, _FOUND, orient="row"), pl.DataFrame(calm, _QUIET, orient="row")
    )


def halves(probes: Sequence[Probed], where: Path) -> tuple[list[Probed], list[Probed]]:
    """Return every second quiet probe, and every second of each injection, and the others.

    By when they began, so that both halves have probes of all hours.

    Raises:
        BadInput: too few of some.
    """
    groups = [quiet(probes), *injected(probes).values()]
    fewest = min(groups, key=len)
    if len(groups) < 2 or len(fewest) // 2 < _LEAST_PROBES:
        name = in_words(fewest[0].injection if fewest else None)
        raise BadInput(
            f"{where}: expected quiet probes and some that were made slower, {2 * _LEAST_PROBES} "
            f"or more of each, found {len(fewest)} ({name}); collect more"
        )
    first = [one for group in groups for one in group[::2]]
    second = [one for group in groups for one in group[1::2]]
    return first, second


class _Days:
    """Days of one fleet: the quiet ones, and from one of them on slower ones."""

    def __init__(
        self, probes: Sequence[Probed], thresholds: Thresholds, chance: random.Random
    ) -> None:
        self.kinds = list(slower := injected(probes))
        self._slower, self._thresholds, self._chance = slower, thresholds, chance
        self._before: list[pl.DataFrame] = []
        self.false_alarms = self._live(quiet(probes))

    def found(self, injection: Injection) -> tuple[int | None, int | None]:
        """Return the probes and days until it is confirmed, from a day that is drawn; None: never.

        An alarm and its confirmation are two probes of one day.
        """
        onset = self._chance.randrange(BURN_IN_DAYS, DAYS)
        fleet = _Fleet(self._thresholds, self._before[onset])
        order = self._slower[injection]
        drawn = cycle(self._chance.sample(order, len(order)))
        probes = 0
        for day in range(1, MOST_DAYS + 1):
            first = fleet.probe(next(drawn))
            probes += 1
            if not any(one.alarm for one in first):
                continue
            probes += 1
            second = fleet.probe(next(drawn))
            if TELLS[injection.what] & {*confirmed(first, second, self._thresholds)}:
                return probes, day
        return None, None

    def _live(self, calm: Sequence[Probed]) -> tuple[int, int]:
        """Live quiet days; return how many alarms there were, and how many were confirmed."""
        following = dict(pairwise([one.run_id for one in calm] + [calm[0].run_id]))
        by_id = {one.run_id: one for one in calm}
        fleet = _Fleet(self._thresholds, _no_history(calm[0]))
        alarms = confirmations = 0
        for day in range(DAYS):
            self._before.append(fleet.history)
            probe = self._chance.choice(calm)
            first = fleet.probe(probe)
            if not any(one.alarm for one in first):
                continue
            second = fleet.probe(by_id[following[probe.run_id]])
            if day >= BURN_IN_DAYS:
                alarms += 1
                confirmations += bool(confirmed(first, second, self._thresholds))
        return alarms, confirmations


def _no_history(like: Probed) -> pl.DataFrame:
    return like.readings.clear().with_columns(alarmed=pl.lit(value=False))


def chosen(replayed: Replayed, half: int) -> float:
    """Return the threshold that one half of the probes recommends.

    Of those with at most one confirmed false alarm in 100 quiet days, the one that finds most of
    what is slower by `LEAST_BY` or more within two probes; of equals the highest. If all have more
    false ones, the highest of all.
    """
    scores = [
        (_share(replayed.found.filter(half=half, z=z)), z)
        for z in Z
        if _per_100_days(replayed.quiet.filter(half=half, z=z)) <= 1
    ]
    return max(scores)[1] if scores else max(Z)


def crossed(replayed: Replayed, z_of: Sequence[float]) -> Replayed:
    """Return what each half came to with the threshold that the other one recommends."""

    def judged(rows: pl.DataFrame) -> pl.DataFrame:
        both = [rows.filter(half=half, z=z_of[1 - half]) for half in (0, 1)]
        return pl.concat(both)

    return Replayed(judged(replayed.found), judged(replayed.quiet))


def _share(found: pl.DataFrame) -> float:
    rows = found.filter(pl.col("by") >= LEAST_BY - 1e-9)
    return float((rows["probes"] <= 2).fill_null(value=False).mean() or 0.0)  # type: ignore[arg-type]


def _per_100_days(calm: pl.DataFrame) -> float:
    return 100 * float(calm["confirmed"].sum()) / float(calm["days"].sum())
