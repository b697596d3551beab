"""How long the host takes to issue a step: a time for each operator, and one for each step.

Probe `inventory` measures it on a node, by kind of operator. Where it did not:
Operators that launch kernels take alike long to issue, whatever their shapes, as Ceer's processor
operations do; views cost a share of that. What a step costs once (reading the batch, the loss, the
optimizer's bookkeeping) is a number of its own. Both are of a machine: they are fitted to whole
steps, in relative terms and to the median, for steps that wait for the host scatter by 10 to 30 %.
A step that the GPU binds says that the host takes no longer.

Source: Hafeez, Gandhi, Ceer, section III (medians of processor operations); ours otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from models.gpu_step.operators import PRODUCTS, Work
from models.gpu_step.queues import varied_us

VIEW_SHARE = 0.6
"""What a view costs of what a launch costs (gpu_h100: of 0, 0.2, 0.35, 0.6 the least error)."""
_WAITS_BELOW = 0.7
"""A step waits for the host where the GPU works less than this share of it."""
_WITHIN = frozenset({"detach", "t"})
"""Views that are made within other operators: see `profilers.inventory.program`."""
_METRIC = "^inventory_issue_(.+)_s$"


@dataclass(frozen=True)
class StepTiming:
    """A step that was timed: launches, views, microseconds of it and of the GPU's work in it."""

    launches: float
    views: float
    step_us: float
    gpu_us: float


@dataclass(frozen=True)
class HostTime:
    """Microseconds of the host: of a launch, once a step, and for each parameter of it.

    `by_kind` has those of operators as probe `inventory` tells them apart; empty: a launch is one,
    and a view costs a share of it.
    """

    launch_us: float
    step_us: float
    parameter_us: float = 0.0
    by_kind: Mapping[str, float] = field(default_factory=dict)

    def issue_us(self, work: Work) -> float:
        """Return the microseconds that a call takes to issue."""
        if self.by_kind:
            return self.by_kind[_kind(work)] if work.name not in _WITHIN else 0.0
        return VIEW_SHARE * self.launch_us if work.kind == "none" else self.launch_us

    def once_us(self, parameters: int) -> float:
        """Return the microseconds that a step takes beside its operators."""
        return self.step_us + parameters * self.parameter_us


def _kind(work: Work) -> str:
    if work.kind == "none":
        return "view"
    if work.kind in PRODUCTS:
        return "product"
    return "normalization" if work.kind.startswith("normalization") else "elementwise"


def measured_hosts(runs: pl.DataFrame, samples: pl.DataFrame) -> Mapping[str, HostTime]:
    """Return what probe `inventory` measured, by node type: medians of all turns.

    Args:
        runs: table `run`.
        samples: table `sample`.
    """
    worker = pl.col("config").str.json_path_match("$.worker").alias("worker")
    kind = pl.col("metric").str.extract(_METRIC).alias("kind")
    rows = (
        samples.select("run_id", kind, "value")
        .drop_nulls()
        .join(runs.filter(probe="inventory", status="ok").select("run_id", worker), on="run_id")
        .group_by("worker", "kind")
        .agg(pl.col("value").median())
        .sort("worker", "kind")
    )
    measured_us: dict[str, dict[str, float]] = {}
    for node_type, name, seconds in rows.iter_rows():
        measured_us.setdefault(str(node_type), {})[name] = 1e6 * seconds
    return {
        node_type: HostTime(us["elementwise"], us.pop("step"), us.pop("parameter"), us)
        for node_type, us in measured_us.items()
    }


def fit(timings: Sequence[StepTiming]) -> HostTime:
    """Fit to steps; least absolute relative errors of the larger of what host and GPU take.

    Raises:
        ValueError: fewer than two steps wait for the host.
    """
    waiting = [timing.gpu_us < _WAITS_BELOW * timing.step_us for timing in timings]
    if sum(waiting) < 2:
        raise ValueError(f"only {sum(waiting)} of {len(timings)} steps wait for the host; need 2")
    step_us = np.array([timing.step_us for timing in timings])
    gpu_us = np.array([timing.gpu_us for timing in timings])
    issued = np.array([timing.launches + VIEW_SHARE * timing.views for timing in timings])
    design = np.stack([issued, np.ones(len(timings))], axis=1)

    def error(costs_us: NDArray[np.float64]) -> float:
        host_us = design @ np.abs(costs_us)
        forecast_us = np.maximum(host_us, gpu_us) + varied_us(host_us, gpu_us)
        return float(np.abs(forecast_us / step_us - 1.0).mean())

    relative = (design / step_us[:, None])[waiting]
    start, _ = scipy.optimize.nnls(relative, np.ones(len(relative)))
    costs_us = np.abs(scipy.optimize.minimize(error, start, method="Nelder-Mead", tol=1e-6).x)
    return HostTime(float(costs_us[0]), float(costs_us[1]))
