"""Measuring in peace: what a hypervisor disturbed is measured again.

Where the host is itself a guest, its hypervisor may take processor time from it in the middle of
a measurement. The kernel counts that time as stolen.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from profilers.steady.host import CpuTimes

MOST_STOLEN = 0.02
"""The part of the host's processor time that may be stolen while something is measured."""
PATIENCE_S = 60.0
"""How long a probe goes on measuring the same again before it takes the least disturbed attempt.

As long as it is, because all forecasts of a job rest on one profile and one probe of its links.
"""

T = TypeVar("T")


@dataclass(frozen=True)
class Measured(Generic[T]):
    """A measured value, and the parts of the host's processor time that were idle and stolen."""

    value: T
    idle: float
    stolen: float

    @property
    def disturbed(self) -> bool:
        """Whether more was stolen than a measurement bears."""
        return self.stolen > MOST_STOLEN


@dataclass
class Patience:
    """Seconds that a probe may still spend on measuring again.

    `cpu_times` tells what the processors that matter have done so far.
    """

    cpu_times: Callable[[], CpuTimes]
    left_s: float = PATIENCE_S

    def quietly(self, measure: Callable[[], T]) -> Measured[T]:
        """Measure until it was quiet or patience ends; return the least disturbed attempt."""
        attempts: list[Measured[T]] = []
        while True:
            before, started_s = self.cpu_times(), time.monotonic()
            value = measure()
            attempts.append(Measured(value, *self.cpu_times().fractions_since(before)))
            if not attempts[-1].disturbed or self.left_s <= 0:
                return min(attempts, key=lambda attempt: attempt.stolen)
            self.left_s -= time.monotonic() - started_s

    def pieces(self, measure: Callable[[int], T], steps: int, size: int) -> list[Measured[T]]:
        """Measure so many steps, `size` at a time, so that a disturbance costs one piece only."""
        return [
            self.quietly(partial(measure, min(size, steps - first)))
            for first in range(0, steps, size)
        ]
