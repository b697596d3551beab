"""Steady cores: quotas follow how fast the host's processors are at the moment.

Where the host is a guest, others use the same cores and caches, and its processors compute half as
fast again from one second to the next, which no counter shows. The program of this module, started
as `python -m profilers.steady.core_quota`, times small pieces of work on each processor again and
again, and lets control groups have their quota so much less often as these are faster. Each
second it says how fast they were. It ends when its standard input does.

Steps of training are products, memory that is read here and there, and Python; neighbours slow down
each of them more or less than the others. No single one follows what steps take
(lab/emulated-cluster.md).
"""

import json
import math
import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

from profilers.clusters import cgroups

SIDE = 192
"""Of the matrices: half a megabyte, which has to come back into the caches, as what a node's job
works on has to each time that it gets its quota."""
READS, LOOPS = 2**15, 4000
_GFLOPS_OF_READS, _GFLOPS_OF_LOOPS = 540.0, 2900.0
"""What a core does, 10⁹ operations of products a second, that reads, or loops, once in a ns."""
_PAUSE_S = 0.02
_MEMORY_S = 0.4
_TOLD_S = 1.0
_NOTICED = 0.02
_SLOWEST, _FASTEST = 0.5, 8.0
"""How much slower and faster than a steady core a host may be for its nodes to be steady."""


@dataclass(frozen=True)
class ControlGroup:
    """A control group, its share, and billions of operations per second of the core it is of."""

    name: str
    cpu_share: float
    core_gflops: float


class Speed:
    """How fast the processors are, on average: the latest half second counts most."""

    def __init__(self) -> None:
        self._logarithms: dict[tuple[int, str], float] = {}

    def saw(self, cpu: int, work: str, gflops: float, every_s: float) -> None:
        """Take note of a reading: one kind of work on one processor, done so often."""
        weight = 1 - math.exp(-every_s / _MEMORY_S)
        now = math.log(gflops)
        known = self._logarithms.get((cpu, work), now)
        self._logarithms[cpu, work] = known + weight * (now - known)

    @property
    def gflops(self) -> float:
        """Return the geometric mean over processors and kinds of work."""
        return math.exp(sum(self._logarithms.values()) / len(self._logarithms))


def gauges() -> dict[str, Callable[[], float]]:
    """Return kinds of work that measure, in a quarter of a ms of processor time each.

    All of them say 10⁹ operations a second: reads and Python what products have on a core that is
    as fast. Only where numpy may use a single thread (`OPENBLAS_NUM_THREADS=1`).
    """
    import numpy as np

    square = np.ones((SIDE, SIDE), np.float32)
    result = np.empty_like(square)
    table = np.random.default_rng(0).permutation(2 * READS)
    places = table[:READS].copy()
    read = np.empty_like(places)

    def loop() -> None:
        total = 0
        for each in range(LOOPS):
            total += each * each

    works: dict[str, tuple[Callable[[], object], float]] = {
        "products": (lambda: np.matmul(square, square, out=result), 2 * SIDE**3),
        "reads": (lambda: np.take(table, places, out=read), _GFLOPS_OF_READS * READS),
        "python": (loop, _GFLOPS_OF_LOOPS * LOOPS),
    }
    return {name: _timed(*work) for name, work in works.items()}


def _timed(work: Callable[[], object], operations: float) -> Callable[[], float]:
    def gflops() -> float:
        before_ns = time.thread_time_ns()
        work()
        return operations / (time.thread_time_ns() - before_ns)

    return gflops


def quota_factor(group: ControlGroup, host_gflops: float) -> float:
    """Return how much longer a group waits for its next quota than on a steady core."""
    return min(max(host_gflops / group.core_gflops, _SLOWEST), _FASTEST)


def _given(timeout_s: float, half: bytearray) -> Iterator[ControlGroup]:
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
        yield from (ControlGroup(**json.loads(line)) for line in lines)


def main() -> None:
    """Pace groups until standard input ends."""
    works, speed = gauges(), Speed()
    paced: dict[ControlGroup, float] = {}
    half, told_s = bytearray(), time.monotonic()
    processors, controller = sorted(os.sched_getaffinity(0)), cgroups.controllers()["cpu"]
    with suppress(EOFError, BrokenPipeError, KeyboardInterrupt):
        while True:
            if time.monotonic() > told_s + _TOLD_S:
                told_s = time.monotonic()
                os.write(1, f"{speed.gflops:.3f}\n".encode())
            for cpu, (name, gflops) in product(processors, works.items()):
                os.sched_setaffinity(0, {cpu})
                speed.saw(cpu, name, gflops(), _PAUSE_S * len(processors) * len(works))
                for group in _given(_PAUSE_S, half):
                    paced[group] = 1.0
                for group, before in paced.items():
                    now = quota_factor(group, speed.gflops)
                    if abs(now / before - 1) > _NOTICED:
                        cgroups.stretch_quota(controller, group.name, group.cpu_share, now)
                        paced[group] = now


if __name__ == "__main__":
    main()
