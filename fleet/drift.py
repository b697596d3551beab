"""Whether a node type has become slower: a new probe `watch` against what earlier ones expect.

A host is slow or fast as a whole from one start to the next, and from one moment to the next. So a
figure is compared relative to how slow the host was meanwhile, with probes of the same start; of a
new start the first probes are also compared with all starts before, as far as these agree.

Each visit to a rented type is another machine. Such probes are held against how far machines of the
type differ, and the newest of them together, for a change of the type is one of all machines.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import copysign, exp, pi, sqrt
from typing import Any, Literal, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fleet.readings import METRICS, WatchedMetric

Verdict = Literal["too_few", "same", "slower", "faster", "ended"]


ALARM_Z = 3.0
"""Standard deviations that a difference has to be beyond chance to be an alarm."""
CONFIRM_Z = 2.5
"""The same of a second probe, which is only asked because of an alarm."""
ALARM_CHANGE = 0.04
"""Part of the figure that a difference has to be to matter."""
LEAST_PROBES = 5
"""So many before, or nothing is said."""


@dataclass(frozen=True)
class Judgement:
    """What a probe says of one metric.

    Attributes:
        metric: as it has landed.
        value: of the probe; of rented machines, the geometric mean of the `machines` newest.
        expected: of a probe at this moment, as fast as the host is now; None: too few probes.
        change: of the value, as part of what was expected: −0.1 of a speed is a tenth slower.
        z: standard deviations that it is slower than expected; below 0: faster.
        probes: earlier ones that it was compared with.
        verdict: too_few, same, slower, faster; ended: as it was before a change that went on.
        alarm: whether a second probe should confirm it.
        machines: how many of the newest differ most clearly from those before; 1: the probe alone.
        spread: standard deviation of slowness between machines; None: they are one.
    """

    metric: str
    value: float
    expected: float | None
    change: float | None
    z: float | None
    probes: int
    verdict: Verdict
    alarm: bool
    machines: int = 1
    spread: float | None = None


def judge(
    history: pl.DataFrame,
    fresh: pl.DataFrame,
    since: pl.DataFrame | None = None,
    *,
    speed_ups: bool = False,
) -> tuple[Judgement, ...]:
    """Judge a probe by those before it.

    Args:
        history: `readings` of earlier probes of one node type on one backend and host, on links of
            one speed, but of those that raised an alarm: what is slow would soon be what is
            expected. After a confirmed shift and a full profile, history begins with that.
        fresh: `readings` of the probe.
        since: `readings` between these: of a change that goes on, and is not yet a history. They
            count where machines are rented.
        speed_ups: whether becoming faster is an alarm too.

    Returns:
        One for each metric that the probe has.
    """
    earlier, later = (
        {metric: rows for (metric,), rows in _comparable(frame, fresh).group_by("metric")}
        for frame in (history, history.clear() if since is None else since)
    )
    nothing = history.clear()
    return tuple(
        _judged(
            earlier.get(reading["metric"], nothing),
            later.get(reading["metric"], nothing),
            reading,
            speed_ups=speed_ups,
        )
        for reading in fresh.iter_rows(named=True)
    )


def confirmed(first: Sequence[Judgement], second: Sequence[Judgement]) -> tuple[str, ...]:
    """Return the metrics of which a second, fresh probe says the same as the first one's alarms."""
    alarms = {
        judgement.metric: judgement.z
        for judgement in first
        if judgement.alarm and judgement.z is not None
    }
    return tuple(
        judgement.metric
        for judgement in second
        if judgement.z is not None
        and judgement.change is not None
        and judgement.metric in alarms
        and copysign(judgement.z, alarms[judgement.metric]) == judgement.z
        and abs(judgement.z) >= CONFIRM_Z
        and abs(judgement.change) >= ALARM_CHANGE
    )


def _comparable(history: pl.DataFrame, fresh: pl.DataFrame) -> pl.DataFrame:
    """Return earlier readings of the same metrics, whose hosts were timed in the same way."""
    unknown = pl.col("host").is_null().alias("unknown")
    key = ["metric", "paced", "unknown"]
    return history.with_columns(unknown).join(
        fresh.select("metric", "paced", unknown), on=key, how="semi", maintain_order="left"
    )


def _judged(
    earlier: pl.DataFrame, since: pl.DataFrame, reading: Mapping[str, Any], *, speed_ups: bool
) -> Judgement:
    metric, value = reading["metric"], reading["value"]
    if earlier.height < LEAST_PROBES:
        return Judgement(metric, value, None, None, None, earlier.height, "too_few", False)
    watched = METRICS[metric]
    spread, newest = None, 1
    slowness, noise = reading["slowness"], reading["noise"]
    if set(earlier["machine"]) == {reading["machine"]}:
        baseline = Baseline.of(earlier, reading["boot"], watched)
        host = reading["host"] or 0.0
        slower = slowness - baseline.expected(host)
        deviation = baseline.deviation(host, noise)
    else:
        newest, mean, slower, deviation, spread = _newest_machines(
            earlier, since, slowness, noise, watched
        )
        value = exp(mean if watched.more_is_slower else -mean)
    z = slower / deviation
    expected = value * exp(-slower if watched.more_is_slower else slower)
    change = value / expected - 1
    verdict: Verdict = "same"
    if abs(z) >= ALARM_Z and abs(change) >= ALARM_CHANGE:
        verdict = "slower" if z > 0 else "faster"
    alarm = verdict == "slower" or (verdict == "faster" and speed_ups)
    return Judgement(
        *(metric, value, expected, change, z, earlier.height, verdict, alarm),
        machines=newest,
        spread=spread,
    )


# What is expected of a watched figure: its level and slope on a start of the host, its scatter.
#
# Medians and median absolute deviations, so that a few strange probes do not count.
# Source: Rousseeuw and Croux, JASA 88 (1993), section 1.


Floats = NDArray[np.float64]
Boots = NDArray[np.object_]

_MAD = 1.4826
"""A normal distribution's standard deviation over its median absolute deviation."""
_MEDIAN = pi / 2
"""Variance of a normal sample's median over that of its mean."""
_SLOPE_SD = 0.3
"""How far slopes may be from what is expected of them: history decides beyond that."""
_PASSES = 3
_PROBES_BELIEVED = 5
"""Probes that the expected scatter of probes weighs as much as: a few may agree by chance."""
_BOOTS_BELIEVED = 3
"""Starts of the host that the expected scatter between starts weighs as much as."""


@dataclass(frozen=True)
class Baseline:
    """What is expected of a metric on one start of the host.

    Attributes:
        slope: how much of the host's slowness the metric has.
        slope_sd: how well that is known.
        host: slowness of the host around which the slope turns.
        level: slowness without the host's.
        level_sd: how well that is known.
        scale: standard deviation of a probe.
        probes: that it rests on.
    """

    slope: float
    slope_sd: float
    host: float
    level: float
    level_sd: float
    scale: float
    probes: int

    @classmethod
    def of(cls, history: pl.DataFrame, boot: str, watched: WatchedMetric) -> Self:
        """Return the baseline of readings of one metric, two or more, for a start of the host."""
        slowness = history["slowness"].to_numpy()
        host = history["host"].fill_null(0.0).to_numpy()
        boots = np.array(history["boot"].to_list(), object)
        expected = watched.paced_slope if history["paced"][-1] else watched.slope
        slope, slope_sd = 0.0, 0.0
        if watched.gauges:
            slope, slope_sd = _slope(slowness, host, boots, expected, watched.scatter)
        rest = slowness - slope * host
        noise = float(np.median(history["noise"].to_numpy()))
        scale = max(_scale(rest, boots, watched.scatter), noise)
        same_boot = boots == boot
        around = host[same_boot] if same_boot.any() else host
        level, level_sd = _level(rest, boots, boot, scale, watched.between_boots)
        return cls(slope, slope_sd, float(around.mean()), level, level_sd, scale, len(rest))

    def expected(self, host: float) -> float:
        """Return the slowness to expect while the host is so slow."""
        return self.level + self.slope * host

    def deviation(self, host: float, noise: float) -> float:
        """Return the standard deviation to expect of a probe with such a noise within."""
        turned = (host - self.host) * self.slope_sd
        return sqrt(max(self.scale, noise) ** 2 + self.level_sd**2 + turned**2)


def _slope(
    slowness: Floats, host: Floats, boots: Boots, expected: float, scatter: float
) -> tuple[float, float]:
    """Return the slope within starts of the host, drawn towards what is expected, and its sd."""
    x, y = _within(host, boots), _within(slowness, boots)
    slope, slope_sd = expected, _SLOPE_SD
    # How much to trust what is expected rests on the scatter that is left, and that on the slope.
    for _ in range(_PASSES):
        variance = _scale(y - slope * x, boots, scatter) ** 2
        precision = float(x @ x) + variance / _SLOPE_SD**2
        slope = expected + float(x @ (y - expected * x)) / precision
        slope_sd = sqrt(variance / precision)
    return slope, slope_sd


def _within(values: Floats, boots: Boots) -> Floats:
    """Return values without the median of their start of the host."""
    centred = values.copy()
    for boot in set(boots):
        centred[boots == boot] -= np.median(values[boots == boot])
    return centred


def _scale(values: Floats, boots: Boots, expected: float) -> float:
    """Return how far values scatter within starts, drawn towards what is expected, as an sd."""
    free = max(len(values) - len(set(boots)), 0)
    squares = _PROBES_BELIEVED * expected**2
    if free:
        deviation = _MAD * float(np.median(np.abs(_within(values, boots))))
        squares += deviation**2 * len(values)
    return sqrt(squares / (_PROBES_BELIEVED + free))


def _level(
    rest: Floats, boots: Boots, boot: str, scale: float, between_boots: float
) -> tuple[float, float]:
    """Return the level of a start of the host, and its sd: what its probes and others' say of it.

    Each counts by its precision. With some probes of its own, a start hardly hears the others.
    """
    boot_rest, others = rest[boots == boot], sorted({*boots} - {boot})
    levels = np.array([np.median(rest[boots == other]) for other in others])
    own = _MEDIAN * scale**2 / max(len(boot_rest), 1)
    if not others:
        return float(np.median(boot_rest)), sqrt(own)
    middle = float(np.median(levels))
    squares = _BOOTS_BELIEVED * between_boots**2 + float(((levels - middle) ** 2).sum())
    between = squares / (_BOOTS_BELIEVED + len(others) - 1) * (1 + 1 / len(others))
    if not len(boot_rest):
        return middle, sqrt(between)
    weight = between / (between + own)
    return weight * float(np.median(boot_rest)) + (1 - weight) * middle, sqrt(weight * own)


# How rented machines of one type differ, and by how much the newest of them do.
#
# What a probe differs by has two parts: how far machines of the type differ, and how far probes of
# one machine do. Each machine is probed once, so history tells the sum of both; the second is known
# from machines that are probed again and again.


_MACHINES_BELIEVED = 3
"""Machines that the expected spread between machines weighs as much as."""
_NEWEST_MACHINES = 4
"""So many of the newest are held together against those before, at most."""
_BEFORE = 3
"""So many times as many there are before, at least: few say too little of how machines differ."""


def _newest_machines(
    earlier: pl.DataFrame,
    since: pl.DataFrame,
    slowness: float,
    noise: float,
    watched: WatchedMetric,
) -> tuple[int, float, float, float, float]:
    """Hold the newest machines against those before, as many as differ most clearly.

    Args:
        earlier: readings of one metric, `LEAST_PROBES` or more.
        since: readings after these that are no part of what is expected; none: the newest of
            `earlier` are held together with the last one.
        slowness: of the last one.
        noise: within its probe.
        watched: the metric.

    Returns:
        How many these are, with the one that was probed last; their mean slowness; by how much that
        is more than the mean of those before; the standard deviation to expect of that, and the one
        between machines.
    """
    history = earlier.sort("started_at")["slowness"].to_numpy()
    after = since.sort("started_at")["slowness"].to_numpy()
    within = max(watched.scatter, float(np.median(earlier["noise"].to_numpy())), noise)
    candidates = []
    for newest in range(1, _NEWEST_MACHINES + 1):
        before, together = history, after
        if since.is_empty():
            before, together = np.split(history, [len(history) - (newest - 1)])
        are_few = len(before) < max(LEAST_PROBES, _BEFORE * newest)
        if newest > 1 and (are_few or len(together) < newest - 1):
            break
        mean = float(np.mean([*together[len(together) - (newest - 1) :], slowness]))
        spread = _spread(before, within, watched.between_machines)
        each = spread**2 + within**2
        deviation = sqrt(each * (1 / newest + 1 / len(before)))
        candidates.append((newest, mean, mean - float(before.mean()), deviation, spread))
    return max(candidates, key=lambda machines: abs(machines[2]) / machines[3])


def _spread(slowness: NDArray[np.float64], within: float, expected: float) -> float:
    """Return how far machines differ, drawn towards what is expected, as an sd."""
    squares = _MACHINES_BELIEVED * (expected**2 + within**2)
    squares += float(((slowness - slowness.mean()) ** 2).sum())
    variance = squares / (_MACHINES_BELIEVED + len(slowness) - 1)
    return sqrt(max(variance - within**2, 0.0))
