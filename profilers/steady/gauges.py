"""How fast the host is meanwhile: gauges of its processors and its memory, in threads beside.

Where the host is a guest, others use the same cores and caches, and a step takes half as long again
from one second to the next. The kernel counts none of that as stolen time.
"""

import hashlib
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from statistics import fmean
from threading import Event, Thread

from profilers import clock

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
        with background_thread(self._run, "gauge"):
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


# How fast the host's memory is meanwhile, by copies of this process.
#
# Other guests of a host use its memory too: copies of a node take a third longer from one minute to
# the next. Copies beside them, by no node, take as much longer, if they are made alike: a node with
# a share of a core copies a few megabytes, and waits for its next period. Copies without such waits
# were slower by a tenth when those of nodes were slower by two thirds (lab/emulated-cluster.md).


_BURST_BYTES = 8 * 2**20
_COPY_PAUSE_S = 0.0085
"""About what a node with 0.15 of a core copies, and waits, in each period of ten milliseconds."""


class MemoryGauge:
    """Copies pieces of so many bytes again and again while it runs, in a thread of its own."""

    def __init__(self, copied_bytes: int) -> None:
        import numpy as np

        # Ones: zeros that nobody wrote would all be read from a single page.
        source, target = (np.ones(copied_bytes, np.uint8) for _ in range(2))
        self._pieces = [
            (target[start : start + _BURST_BYTES], source[start : start + _BURST_BYTES])
            for start in range(0, copied_bytes, _BURST_BYTES)
        ]
        self._copy = np.copyto
        self._speeds_Bps: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Copy as long as the block runs, at least one piece."""
        self._speeds_Bps = []
        with background_thread(self._run, "memory gauge"):
            yield

    @property
    def speed_Bps(self) -> float:
        """Bytes copied for each second of processor time (harmonic mean), while it ran last.

        Raises:
            ValueError: it has not run.
        """
        if not self._speeds_Bps:
            raise ValueError("the speed of a memory gauge that has not run")
        return 1 / fmean(1 / speed for speed in self._speeds_Bps)

    def _run(self, stopped: Event) -> None:
        while True:
            for target, source in self._pieces:
                before_ns = time.thread_time_ns()
                self._copy(target, source)
                taken_s = (time.thread_time_ns() - before_ns) / 1e9
                self._speeds_Bps.append(source.nbytes / taken_s)
                if stopped.wait(_COPY_PAUSE_S):
                    return


# A thread that runs beside a block, and ends with it.


@contextmanager
def background_thread(run: Callable[[Event], None], name: str) -> Iterator[None]:
    """Run something in a thread of that name while the block runs; it is told when to end."""
    stopped = Event()
    thread = Thread(target=run, args=(stopped,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
