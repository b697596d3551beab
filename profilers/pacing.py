"""Steady cores: quotas follow how fast the host's processors are at the moment.

Where the host is a guest, others use the same cores and caches, and its processors compute half as
fast again from one second to the next, which no counter shows. The program of this module, started
as `python -m profilers.pacing`, times a product of matrices on each processor again and
again, and lets control groups have their quota so much less often as products are faster. Each
second it says how fast they were. It ends when its standard input does.
"""

import json
import math
import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from profilers.clusters import cgroups

SIDE = 192
"""Of the matrices: half a megabyte, which has to come back into the caches, as what a node's job
works on has to each time that it gets its quota."""
_PAUSE_S = 0.02
_MEMORY_S = 0.4
_TOLD_S = 1.0
_NOTICED = 0.02
_SLOWEST, _FASTEST = 0.5, 8.0
"""How much slower and faster than a steady core a host may be for its nodes to be steady."""


@dataclass(frozen=True)
class Group:
    """A control group, its share, and billions of operations per second of the core it is of."""

    name: str
    cpu_share: float
    core_gflops: float


class Speed:
    """How fast the processors are, on average: the latest half second counts most."""

    def __init__(self) -> None:
        self._gflops: dict[int, float] = {}

    def saw(self, cpu: int, gflops: float, processors: int) -> None:
        """Take note of one reading of one of so many processors."""
        weight = 1 - math.exp(-_PAUSE_S * processors / _MEMORY_S)
        known = self._gflops.get(cpu, gflops)
        self._gflops[cpu] = known + weight * (gflops - known)

    @property
    def gflops(self) -> float:
        """Return the mean over processors."""
        return sum(self._gflops.values()) / len(self._gflops)


def gauge() -> Callable[[], float]:
    """Return what measures 10⁹ operations a second of processor time, in a quarter of a ms.

    Only where numpy may use a single thread (`OPENBLAS_NUM_THREADS=1`).
    """
    import numpy as np

    square = np.ones((SIDE, SIDE), np.float32)
    product = np.empty_like(square)

    def gflops() -> float:
        before_ns = time.thread_time_ns()
        np.matmul(square, square, out=product)
        return 2 * SIDE**3 / (time.thread_time_ns() - before_ns)

    return gflops


def pace(group: Group, host_gflops: float) -> float:
    """Return how much longer a group waits for its next quota than on a steady core."""
    return min(max(host_gflops / group.core_gflops, _SLOWEST), _FASTEST)


def _given(timeout_s: float, half: bytearray) -> Iterator[Group]:
    """Yield the groups that have come meanwhile; `half` keeps the start of a line.

    Raises:
        EOFError: no more will come.
    """
    if select.select([0], [], [], timeout_s)[0]:
        if not (read := os.read(0, 65_536)):
            raise EOFError
        half += read
        *lines, rest = half.split(b"\n")
        half[:] = rest
        yield from (Group(**json.loads(line)) for line in lines)


def main() -> None:
    """Pace groups until standard input ends."""
    measure, speed = gauge(), Speed()
    paced: dict[Group, float] = {}
    half, told_s = bytearray(), time.monotonic()
    processors, controller = sorted(os.sched_getaffinity(0)), cgroups.controllers()["cpu"]
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            if time.monotonic() > told_s + _TOLD_S:
                told_s = time.monotonic()
                os.write(1, f"{speed.gflops:.3f}\n".encode())
            for cpu in processors:
                os.sched_setaffinity(0, {cpu})
                speed.saw(cpu, measure(), len(processors))
                for group in _given(_PAUSE_S, half):
                    paced[group] = 1.0
                for group, before in paced.items():
                    now = pace(group, speed.gflops)
                    if abs(now / before - 1) > _NOTICED:
                        cgroups.pace(controller, group.name, group.cpu_share, now)
                        paced[group] = now


if __name__ == "__main__":
    main()
