"""How long the host takes to issue a step: a time for each operator, and one for each step.

Operators of a kind take alike long to issue, whatever their shapes, as Ceer's processor operations
do. Probe `inventory` measures how long on a node. Where it did not, kinds cost beside each other
what they cost on all hosts (`RELATIVE`). What a step costs once (reading the batch, the loss, the
optimizer's bookkeeping) is a number of its own. Hosts differ in how many times as long all takes:
each source of public steps is a class of hosts. They are fitted to whole steps, in relative terms
and to the median, for steps that wait for the host scatter by 10 to 30 %.
A step that the GPU binds says that the host takes no longer.

Source: Hafeez, Gandhi, Ceer, section III (medians of processor operations); ours otherwise.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, log
from statistics import median

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from models.gpu_step.operators import PRODUCTS, Work
from models.gpu_step.queues import varied_us
from profilers.clusters.node_types import node_types

RELATIVE: Mapping[str, float] = {
    "product": 2.0,
    "normalization": 5.0,
    "elementwise": 1.0,
    "view": 0.4,
}
"""What kinds of operators cost beside each other on hosts of public steps: of 36 such tables one of
those by which families of gpu_h100, and sources, that were left out erred least."""
_ONCE = 100.0
"""Pointwise operators that cost a host as much as a step does once: 60 and 176 on the hosts of
studies `reference_gpu` and `reference_h100`, whose steps are smaller than public ones."""
_WAITS_BELOW = 0.7
"""A step waits for the host where the GPU works less than this share of it."""
_WITHIN = frozenset({"detach", "t"})
"""Views that are made within other operators: see `profilers.inventory.program`."""
_ROUNDS = 8
_STARTS = 3
_METRIC = "^inventory_issue_(.+)_s$"


@dataclass(frozen=True)
class StepTiming:
    """A step that was timed: microseconds of it and of the GPU's work in it.

    `issued`: its operators, by what they cost (`RELATIVE`). `source`: whose host it was.
    """

    issued: float
    step_us: float
    gpu_us: float
    source: str = ""


@dataclass(frozen=True)
class HostTime:
    """Microseconds of the host: of an operator by kind, once a step, and for each parameter.

    `least_us`: of the operators of the smallest step that it was fitted to, 0: it was measured.
    """

    by_kind: Mapping[str, float]
    step_us: float
    parameter_us: float = 0.0
    least_us: float = 0.0

    def issue_us(self, work: Work) -> float:
        """Return the microseconds that a call takes to issue."""
        return self.by_kind[_kind(work)] if work.name not in _WITHIN else 0.0

    def once_us(self, parameters: int, operators_us: float) -> float:
        """Return the microseconds that a step takes beside its operators.

        A fit tells nothing of steps with fewer operators than it has seen: these take less, in
        proportion to their operators and `_ONCE`.
        """
        once_us = self.step_us
        if operators_us < self.least_us:
            beside_us = _ONCE * self.by_kind["elementwise"]
            share = (operators_us + beside_us) / (self.least_us + beside_us)
            once_us = share * (self.least_us + self.step_us) - operators_us
        return once_us + parameters * self.parameter_us


@dataclass(frozen=True)
class HostClasses:
    """Hosts of public steps: times of one, and how many times as long others take, by source.

    `measured`: hosts that were measured, by node type. No source names its processor.
    """

    times: HostTime
    slowness: Mapping[str, float]
    measured: Mapping[str, HostTime] = field(default_factory=dict)

    def of_node(self, node_type: str) -> tuple[HostTime, str]:
        """Return the host of a node type, and what it rests on.

        That is `measured` of it, else of another type with its `processor`, else the middle one of
        the `public` steps.
        """
        if node_type in self.measured:
            return self.measured[node_type], "measured"
        processor = processor_of(node_type)
        for name, host in self.measured.items():
            if processor is not None and processor_of(name) == processor:
                return host, "processor"
        return self.middle, "public"

    def of(self, source: str) -> HostTime:
        """Return the host of a source; of one that says nothing of hosts the middle one."""
        return self._slowed(self.slowness[source]) if source in self.slowness else self.middle

    @property
    def middle(self) -> HostTime:
        """The median host, of an even number the mean of the two in the middle."""
        return self._slowed(exp(median(map(log, self.slowness.values()))))

    @property
    def spread(self) -> tuple[float, float]:
        """How many times as long as the middle one the fastest and the slowest host take."""
        middle = exp(median(map(log, self.slowness.values())))
        return min(self.slowness.values()) / middle, max(self.slowness.values()) / middle

    def spread_of(self, host_us: float, gpu_us: float) -> tuple[float, float]:
        """Return how many times as long a step takes with the fastest and the slowest host.

        Args:
            host_us: of the middle one.
            gpu_us: of the GPU.
        """
        longest_us = max(host_us, gpu_us)
        fastest, slowest = (max(times * host_us, gpu_us) / longest_us for times in self.spread)
        return fastest, slowest

    def _slowed(self, times: float) -> HostTime:
        by_kind = {kind: times * us for kind, us in self.times.by_kind.items()}
        return HostTime(by_kind, times * self.times.step_us, least_us=times * self.times.least_us)


def processor_of(node_type: str) -> str | None:
    """Return the name of a node type's processor; None: nobody told."""
    kind = node_types().get(node_type)
    return None if kind is None else kind.processor


def _kind(work: Work) -> str:
    if work.kind == "none":
        return "view"
    if work.kind in PRODUCTS:
        return "product"
    return "normalization" if work.kind.startswith("normalization") else "elementwise"


def measured_hosts(runs: pl.DataFrame, samples: pl.DataFrame) -> Mapping[str, HostTime]:
    """Return what probe `inventory` measured, by node type: medians of all turns.

    Of node types without an inventory, what traces of training there say, which are slower.

    Args:
        runs: table `run`.
        samples: table `sample`.
    """
    worker = pl.col("config").str.json_path_match("$.worker").alias("worker")
    kind = pl.col("metric").str.extract(_METRIC).alias("kind")
    measuring = runs.filter(pl.col("probe").is_in(("inventory", "kineto")), status="ok")
    rows = (
        samples.select("run_id", kind, "value")
        .drop_nulls()
        .join(measuring.select("run_id", "probe", worker), on="run_id")
        .filter(pl.col("probe") == pl.col("probe").min().over("worker"))
        .group_by("worker", "kind")
        .agg(pl.col("value").median())
        .sort("worker", "kind")
    )
    measured_us: dict[str, dict[str, float]] = {}
    for node_type, name, seconds in rows.iter_rows():
        measured_us.setdefault(str(node_type), {})[name] = 1e6 * seconds
    return {
        node_type: HostTime(us, us.pop("step"), us.pop("parameter"))
        for node_type, us in measured_us.items()
    }


def fit(timings: Sequence[StepTiming]) -> HostClasses:
    """Fit to steps; least absolute relative errors of the larger of what host and GPU take.

    All hosts share what a launch and a step cost beside each other; each has a speed, and counts
    alike. A source with fewer than two steps that wait for its host says nothing of hosts.

    Raises:
        ValueError: there is no other source.
    """
    by_source: dict[str, list[StepTiming]] = {}
    for timing in timings:
        by_source.setdefault(timing.source, []).append(timing)
    waiting = {
        source: sum(timing.gpu_us < _WAITS_BELOW * timing.step_us for timing in of_source)
        for source, of_source in by_source.items()
    }
    sources = [source for source, count in waiting.items() if count > 1]
    if not sources:
        raise ValueError(f"of {len(timings)} steps no source has 2 that wait for the host")
    used = [timing for source in sources for timing in by_source[source]]
    of_source = np.array([sources.index(timing.source) for timing in used])
    weights = 1.0 / np.bincount(of_source)[of_source]
    step_us = np.array([timing.step_us for timing in used])
    gpu_us = np.array([timing.gpu_us for timing in used])
    design = np.array([(timing.issued, 1.0) for timing in used])

    def slowness(logs: NDArray[np.float64]) -> NDArray[np.float64]:
        times: NDArray[np.float64] = np.exp(np.concatenate([[0.0], logs]))
        return times

    def error(costs: NDArray[np.float64]) -> float:
        host_us = (design @ np.abs(costs[:2])) * slowness(costs[2:])[of_source]
        forecast_us = np.maximum(host_us, gpu_us) + varied_us(host_us, gpu_us)
        return float(np.average(np.abs(forecast_us / step_us - 1.0), weights=weights))

    waits = gpu_us < _WAITS_BELOW * step_us
    relative, logs = design / step_us[:, None], np.zeros(len(sources))
    for _ in range(_ROUNDS):
        rows = relative * np.exp(logs)[of_source][:, None]
        start, _ = scipy.optimize.nnls(rows[waits], np.ones(int(waits.sum())))
        ratios = relative @ start
        of_sources = [np.median(ratios[waits & (of_source == i)]) for i in range(len(sources))]
        logs = np.log(of_sources[0] / np.array(of_sources))
    best = np.concatenate([start, logs[1:]])
    for _ in range(_STARTS):  # a simplex that has shrunk on a fold goes on from there
        best = scipy.optimize.minimize(error, best, method="Nelder-Mead", tol=1e-6).x
    by_kind = {kind: times * float(abs(best[0])) for kind, times in RELATIVE.items()}
    least = min(timing.issued for timing in used)
    times = HostTime(by_kind, float(abs(best[1])), least_us=least * by_kind["elementwise"])
    return HostClasses(times, dict(zip(sources, slowness(best[2:]).tolist(), strict=True)))
