"""How fast the host's processors are meanwhile, by what a fixed piece of work takes.

Where the host is a guest, others use the same cores and caches, and a step takes half as long again
from one second to the next. The kernel counts none of that as stolen time.
"""

import hashlib
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from statistics import fmean
from threading import Event

from profilers import clock
from profilers.steady.beside import beside

_WORK = bytes(16_384)
_REPEATS = 4
_PAUSE_S = 0.1
_KEPT = 100_000
"""Times that are remembered: those of about three hours."""


class Gauge:
    """Times the same work again and again while it runs, in a thread of its own.

    That takes less than a hundredth of a core. What counts is the processor time of the thread, so
    it does not matter how busy the host is with other things.
    """

    def __init__(self) -> None:
        self._times: deque[tuple[datetime, float]] = deque(maxlen=_KEPT)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the work as long as the block runs."""
        with beside(self._run, "gauge"):
            yield

    def mean_us(self, since: datetime) -> float | None:
        """Return the mean time of the work since then, microseconds; None if it was not timed."""
        # Of a copy, made at once: the thread may add to what is iterated over.
        times = [taken_us for at, taken_us in self._times.copy() if at >= since]
        return fmean(times) if times else None

    def _run(self, stopped: Event) -> None:
        while not stopped.wait(_PAUSE_S):
            self._times.append((clock.now(), _work_us()))


def _work_us() -> float:
    before_ns = time.thread_time_ns()
    for _ in range(_REPEATS):
        hashlib.sha256(_WORK).digest()
    return (time.thread_time_ns() - before_ns) / 1000


GAUGE = Gauge()
"""The gauge of this process; it runs while the host lock is held."""
