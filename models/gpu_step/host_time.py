"""How long the host takes to issue a step: a time for each launch, and one for each step.

Operators that launch kernels take alike long to issue, whatever their shapes, as Ceer's processor
operations do; views cost a share of that. What a step costs once (reading the batch, the loss, the
optimizer's bookkeeping) is a number of its own. Both are of a machine: they are fitted to steps
that wait for the host, in relative terms and to the median, for such steps scatter by 10 to 30 %.

Source: Hafeez, Gandhi, Ceer, section III (medians of processor operations); ours otherwise.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy

VIEW_SHARE = 0.6
"""What a view costs of what a launch costs (gpu_h100: of 0, 0.2, 0.35, 0.6 the least error)."""
_WAITS_BELOW = 0.7
"""A step waits for the host where the GPU works less than this share of it."""
_CLOSE = 0.05
_ROUNDS = 30


@dataclass(frozen=True)
class StepTiming:
    """A step that was timed: launches, views, microseconds of it and of the GPU's work in it."""

    launches: float
    views: float
    step_us: float
    gpu_us: float


@dataclass(frozen=True)
class HostTime:
    """Microseconds of the host: of a launch, and once a step."""

    launch_us: float
    step_us: float

    @property
    def view_us(self) -> float:
        """Microseconds of a view."""
        return VIEW_SHARE * self.launch_us

    def us(self, launches: float, views: float) -> float:
        """Return the microseconds that the host takes to issue a step."""
        return self.step_us + launches * self.launch_us + views * self.view_us


def fit(timings: Sequence[StepTiming]) -> HostTime:
    """Fit to the steps that wait for the host; least absolute relative errors.

    Raises:
        ValueError: fewer than two steps wait for the host.
    """
    waiting = [one for one in timings if one.gpu_us < _WAITS_BELOW * one.step_us]
    if len(waiting) < 2:
        raise ValueError(f"only {len(waiting)} of {len(timings)} steps wait for the host; need 2")
    step_us = np.array([one.step_us for one in waiting])
    issued = np.array([one.launches + VIEW_SHARE * one.views for one in waiting])
    matrix = np.stack([issued / step_us, 1.0 / step_us], axis=1)
    weights = np.ones(len(waiting))
    found = np.zeros(2)
    # Least squares with weights of the last round's errors: they tend to the median.
    for _ in range(_ROUNDS):
        found, _ = scipy.optimize.nnls(matrix * weights[:, None], weights)
        weights = 1.0 / np.sqrt(np.maximum(np.abs(matrix @ found - 1.0), _CLOSE))
    return HostTime(float(found[0]), float(found[1]))
