"""What is expected of a watched figure: its level and slope on a start of the host, its scatter.

Medians and median absolute deviations, so that a few strange probes do not count.
Source: Rousseeuw and Croux, JASA 88 (1993), section 1.
"""

from dataclasses import dataclass
from math import pi, sqrt
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fleet.readings import Watched

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
    def of(cls, history: pl.DataFrame, boot: str, watched: Watched) -> Self:
        """Return the baseline of readings of one metric, two or more, for a start of the host."""
        slowness, host, boots = _arrays(history)
        expected = watched.paced_slope if history["paced"][-1] else watched.slope
        slope, slope_sd = 0.0, 0.0
        if watched.gauges:
            slope, slope_sd = _slope(slowness, host, boots, expected, watched.scatter)
        rest = slowness - slope * host
        noise = float(np.median(history["noise"].to_numpy()))
        scale = max(_scale(rest, boots, watched.scatter), noise)
        ours = boots == boot
        around = host[ours] if ours.any() else host
        level, level_sd = _level(rest, boots, boot, scale, watched.between_boots)
        return cls(slope, slope_sd, float(around.mean()), level, level_sd, scale, len(rest))

    def expected(self, host: float) -> float:
        """Return the slowness to expect while the host is so slow."""
        return self.level + self.slope * host

    def deviation(self, host: float, noise: float) -> float:
        """Return the standard deviation to expect of a probe with such a noise within."""
        turned = (host - self.host) * self.slope_sd
        return sqrt(max(self.scale, noise) ** 2 + self.level_sd**2 + turned**2)


def _arrays(history: pl.DataFrame) -> tuple[Floats, Floats, Boots]:
    host = history["host"].fill_null(0.0).to_numpy()
    return history["slowness"].to_numpy(), host, np.array(history["boot"].to_list(), object)


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
    found = values.copy()
    for boot in set(boots):
        found[boots == boot] -= np.median(values[boots == boot])
    return found


def _scale(values: Floats, boots: Boots, expected: float) -> float:
    """Return how far values scatter within starts, drawn towards what is expected, as an sd."""
    free = max(len(values) - len(set(boots)), 0)
    squares = _PROBES_BELIEVED * expected**2
    if free:
        found = _MAD * float(np.median(np.abs(_within(values, boots))))
        squares += found**2 * len(values)
    return sqrt(squares / (_PROBES_BELIEVED + free))


def _level(
    rest: Floats, boots: Boots, boot: str, scale: float, between_boots: float
) -> tuple[float, float]:
    """Return the level of a start of the host, and its sd: what its probes and others' say of it.

    Each counts by its precision. With some probes of its own, a start hardly hears the others.
    """
    ours, others = rest[boots == boot], sorted({*boots} - {boot})
    levels = np.array([np.median(rest[boots == one]) for one in others])
    own = _MEDIAN * scale**2 / max(len(ours), 1)
    if not others:
        return float(np.median(ours)), sqrt(own)
    middle = float(np.median(levels))
    squares = _BOOTS_BELIEVED * between_boots**2 + float(((levels - middle) ** 2).sum())
    between = squares / (_BOOTS_BELIEVED + len(others) - 1) * (1 + 1 / len(others))
    if not len(ours):
        return middle, sqrt(between)
    weight = between / (between + own)
    return weight * float(np.median(ours)) + (1 - weight) * middle, sqrt(weight * own)
