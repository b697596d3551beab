"""A training step as two queues: the host issues kernels, the GPU executes them in order.

A kernel starts when it has been issued and the kernel before it has ended. The host runs ahead of
the GPU, and waits for it where a value is asked for (`.item()`, the check of loss scaling). A step
ends when both have; in a loop the host starts the next step while the GPU still works at the last
one, so the time of a step is that between two of its ends. Without waits that is the larger of both
sums. How far the host may run ahead has no bound here: CUDA states none.

The host takes not always alike long, and where both take about as long the slower moments of the
host are not made up for: `varied_us` is what that costs in the mean.

Source: Clark, The greatest of a finite set of random variables (Operations Research 1961); ours
otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import erfc, inf, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
_STEPS = 3
_VARIATION = 0.1
"""Of the host's time, a standard deviation: loop and synchronised times of the steps of gpu_h100
differ by 11.3 % in the mean, which is 1.13 of it between two draws of a normal distribution."""


@dataclass(frozen=True)
class Step:
    """Microseconds of a step in a loop, how long each resource works in it, and what is lost.

    `varied_us` is lost to a host that is not always alike fast.
    """

    step_us: float
    host_us: float
    gpu_us: float
    varied_us: float = 0.0

    @property
    def waits_us(self) -> float:
        """What is lost where the host waits for values: it issues nothing, then the GPU idles."""
        return max(self.step_us - self.varied_us - max(self.host_us, self.gpu_us), 0.0)

    @property
    def binds(self) -> str:
        """`gpu` or `host`: the one that is busy for the larger part of the step."""
        return "gpu" if self.gpu_us >= self.host_us else "host"

    @property
    def idle_share(self) -> float:
        """Share of the step in which the resource that does not bind has nothing to do."""
        return 1.0 - min(self.gpu_us, self.host_us) / self.step_us


def varied_us(host_us: Vector, gpu_us: Vector) -> Vector:
    """Return how much longer than the larger of both a step is in the mean, microseconds.

    Args:
        host_us: of whole steps, in the mean; they vary as a normal distribution.
        gpu_us: of the same steps.
    """
    deviation_us = _VARIATION * host_us
    apart = np.abs(host_us - gpu_us) / deviation_us
    density = np.exp(-0.5 * apart**2) / np.sqrt(2 * np.pi)
    # scipy.special has it, too, and takes longer to import than a forecast takes.
    tail = 0.5 * np.array([erfc(value) for value in (apart / sqrt(2)).flat]).reshape(apart.shape)
    longer_us: Vector = deviation_us * (density - apart * tail)
    return longer_us


def slowest_s(host_s: float, hosts: int) -> float:
    """Return the mean time of the slowest of so many processes that take so long in the mean.

    Nobody timed processes beside each other: they are taken to differ, through a step, by as much
    as steps of one do. What GPUs differ by comes on top (`straggling_share`).

    Source: Blom, Statistical Estimates and Transformed Beta-Variables (1958), section 6.9.
    """
    deviations = NormalDist().inv_cdf((hosts - 0.375) / (hosts + 0.25))
    return host_s * (1 + _VARIATION * deviations)


def simulate(host_us: Vector, gpu_us: Vector, waits: Sequence[int] = ()) -> Step:
    """Return the last of a few steps in a row.

    Args:
        host_us: microseconds that the host takes to issue each call.
        gpu_us: that the GPU takes for it; 0 of what only the host does.
        waits: places of calls after which the host goes on when the GPU has done them.

    Raises:
        ValueError: there is nothing to issue.
    """
    if not len(host_us):
        raise ValueError("a step without operators")
    bounds = [0, *(place + 1 for place in sorted(waits)), len(host_us)]
    waited, parts = set(waits), list[tuple[float, float, float, bool]]()
    for a, b in pairwise(bounds):
        if b > a:
            issued, done = np.cumsum(host_us[a:b]), np.cumsum(gpu_us[a:b])
            late = (issued - done + gpu_us[a:b])[gpu_us[a:b] > 0]
            latest = float(late.max()) if len(late) else -inf
            parts.append((float(issued[-1]), float(done[-1]), latest, b - 1 in waited))
    host = gpu = end = before = 0.0
    for _ in range(_STEPS):
        for issued_us, done_us, latest_us, is_waited_for in parts:
            # A queue that ran dry starts with the call that was late, and ends as it says.
            gpu = max(gpu, host + latest_us) + done_us
            host += issued_us
            if is_waited_for:
                host = max(host, gpu)
        before, end = end, max(host, gpu)
    return Step(end - before, float(host_us.sum()), float(gpu_us.sum()))
