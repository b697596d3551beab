"""How fast the host's memory is meanwhile, by copies of this process.

Other guests of a host use its memory too: copies of a node take a third longer from one minute to
the next. Copies beside them, by no node, take as much longer.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean
from threading import Event

from profilers.steady.beside import beside

_PAUSE_S = 0.03


class MemoryGauge:
    """Copies so many bytes again and again while it runs, in a thread of its own."""

    def __init__(self, copied_bytes: int) -> None:
        import numpy as np

        # Ones: zeros that nobody wrote would all be read from a single page.
        self._source, self._target = (np.ones(copied_bytes, np.uint8) for _ in range(2))
        self._copy = np.copyto
        self._taken_s: list[float] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        """Copy as long as the block runs, at least once."""
        self._taken_s = []
        with beside(self._run, "memory gauge"):
            yield

    @property
    def speed_Bps(self) -> float:
        """Bytes copied for each second of processor time, while it ran last.

        Raises:
            ValueError: it has not run.
        """
        if not self._taken_s:
            raise ValueError("the speed of a memory gauge that has not run")
        return self._source.nbytes / fmean(self._taken_s)

    def _run(self, stopped: Event) -> None:
        while not self._taken_s or not stopped.wait(_PAUSE_S):
            before_ns = time.thread_time_ns()
            self._copy(self._target, self._source)
            self._taken_s.append((time.thread_time_ns() - before_ns) / 1e9)
