"""How fast the host's memory is meanwhile, by copies of this process.

Other guests of a host use its memory too: copies of a node take a third longer from one minute to
the next. Copies beside them, by no node, take as much longer, if they are made alike: a node with
a share of a core copies a few megabytes, and waits for its next period. Copies without such waits
were slower by a tenth when those of nodes were slower by two thirds (lab/drift.md).
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean
from threading import Event

from profilers.steady.beside import beside

_BURST_BYTES = 8 * 2**20
_PAUSE_S = 0.0085
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
        with beside(self._run, "memory gauge"):
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
                if stopped.wait(_PAUSE_S):
                    return
