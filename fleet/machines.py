"""How rented machines of one type differ, and by how much the newest of them do.

What a probe differs by has two parts: how far machines of the type differ, and how far probes of
one machine do. Each machine is probed once, so history tells the sum of both; the second is known
from machines that are probed again and again.
"""

from dataclasses import dataclass
from math import sqrt
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from fleet.readings import WatchedMetric

_MACHINES_BELIEVED = 3
"""Machines that the expected spread between machines weighs as much as."""
_NEWEST_MACHINES = 4
"""So many of the newest are held together against those before, at most."""
_BEFORE = 3
"""So many times as many there are before, at least: few say too little of how machines differ."""


@dataclass(frozen=True)
class Machines:
    """How the newest machines of a type differ from those before, as many as differ most clearly.

    Attributes:
        newest: how many these are, with the one that was probed last.
        slowness: their mean.
        slower: by how much that is more than the mean of those before.
        deviation: standard deviation to expect of that.
        spread: standard deviation between machines.
    """

    newest: int
    slowness: float
    slower: float
    deviation: float
    spread: float

    @classmethod
    def of(
        cls,
        earlier: pl.DataFrame,
        since: pl.DataFrame,
        slowness: float,
        noise: float,
        watched: WatchedMetric,
        least: int,
    ) -> Self:
        """Hold the newest machines against those before.

        Args:
            earlier: readings of one metric, `least` or more.
            since: readings after these that are no part of what is expected; none: the newest of
                `earlier` are held together with the last one.
            slowness: of the last one.
            noise: within its probe.
            watched: the metric.
            least: so many are left before.
        """
        history = earlier.sort("started_at")["slowness"].to_numpy()
        after = since.sort("started_at")["slowness"].to_numpy()
        within = max(watched.scatter, float(np.median(earlier["noise"].to_numpy())), noise)
        candidates = []
        for newest in range(1, _NEWEST_MACHINES + 1):
            before, together = history, after
            if since.is_empty():
                before, together = np.split(history, [len(history) - (newest - 1)])
            are_few = len(before) < max(least, _BEFORE * newest)
            if newest > 1 and (are_few or len(together) < newest - 1):
                break
            mean = float(np.mean([*together[len(together) - (newest - 1) :], slowness]))
            spread = _spread(before, within, watched.between_machines)
            each = spread**2 + within**2
            deviation = sqrt(each * (1 / newest + 1 / len(before)))
            candidates.append(cls(newest, mean, mean - float(before.mean()), deviation, spread))
        return max(candidates, key=lambda machines: abs(machines.slower) / machines.deviation)


def _spread(slowness: NDArray[np.float64], within: float, expected: float) -> float:
    """Return how far machines differ, drawn towards what is expected, as an sd."""
    squares = _MACHINES_BELIEVED * (expected**2 + within**2)
    squares += float(((slowness - slowness.mean()) ** 2).sum())
    variance = squares / (_MACHINES_BELIEVED + len(slowness) - 1)
    return sqrt(max(variance - within**2, 0.0))
