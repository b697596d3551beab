"""A training step as two queues: the host issues kernels, the GPU executes them in order.

A kernel starts when it has been issued and the kernel before it has ended. The host runs ahead of
the GPU, up to `DEPTH` kernels, and waits for it where a value is asked for (`.item()`, the check of
loss scaling). A step ends when both have; in a loop the host starts the next step while the GPU
still works at the last one, so the time of a step is that between two of its ends.

Source: ours; CUDA's launch queue has 1,024 entries (observed: CUDA programming guide, asynchronous
concurrent execution).
"""

from collections.abc import Sequence
from dataclasses import dataclass

DEPTH = 1024


@dataclass(frozen=True)
class Launch:
    """An operator: microseconds that the host takes to issue it and that the GPU takes for it.

    `kernels`: how many it launches, 0 of what only the host does. `waits`: the host goes on when
    the GPU has done it.
    """

    host_us: float
    gpu_us: float
    kernels: int = 1
    waits: bool = False


@dataclass(frozen=True)
class Step:
    """Microseconds of a step in a loop; how long each resource works, and which one binds."""

    step_us: float
    host_us: float
    gpu_us: float

    @property
    def binds(self) -> str:
        """`gpu` or `host`: the one that is busy for the larger part of the step."""
        return "gpu" if self.gpu_us >= self.host_us else "host"

    @property
    def idle_share(self) -> float:
        """Share of the step in which the resource that does not bind has nothing to do."""
        return 1.0 - min(self.gpu_us, self.host_us) / self.step_us


def simulate(launches: Sequence[Launch], steps: int = 3) -> Step:
    """Return the last of `steps` steps in a row.

    Raises:
        ValueError: there is nothing to launch.
    """
    if not launches:
        raise ValueError("a step without operators")
    host = gpu = 0.0
    ends: list[float] = []
    started: list[float] = []
    done = [0.0]
    for _ in range(steps):
        for launch in launches:
            if len(started) >= DEPTH and launch.kernels:
                host = max(host, started[-DEPTH])
            host += launch.host_us
            if launch.kernels:
                begin = max(host, gpu)
                started.append(begin)
                gpu = begin + launch.gpu_us
            if launch.waits:
                host = max(host, gpu)
        ends.append(max(host, gpu))
        done.append(ends[-1])
    return Step(
        done[-1] - done[-2],
        sum(launch.host_us for launch in launches),
        sum(launch.gpu_us for launch in launches),
    )


def larger_of_both_us(launches: Sequence[Launch]) -> float:
    """Return the baseline: whichever of host and GPU has more to do."""
    return max(
        sum(launch.host_us for launch in launches), sum(launch.gpu_us for launch in launches)
    )
