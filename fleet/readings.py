"""What a probe `watch` says of a node type, a figure a metric, with the noise within the probe."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import log, sqrt

import polars as pl

from profilers.watch import probe as watch
from warehouse.records import BadInput

MACHINE_SPREAD = log(1.28) / sqrt(2)
"""What two machines tell of the standard deviation between machines whose steps take 28 % longer on
one than on the other: two with an H200, November 2026 (lab/gpu.md)."""


@dataclass(frozen=True)
class WatchedMetric:
    """How a metric tells that a node is slow, and what is known before any history.

    Slowness is the logarithm of the figure, or less that of it where more is faster; so is that of
    the host. A slope is how much of the host's slowness a node has.

    Attributes:
        more_is_slower: seconds, not speeds.
        slope: expected where nodes have a share of the host's cores as they are.
        paced_slope: where cores are steady (`profilers.steady.core_quota`): what the host does to
            steps is made up for, by more or less processor time in each second.
        gauges: what tells how slow the host is, the best first; none: no slope.
        scatter: standard deviation of slowness between probes on one start of a host.
        between_boots: the same between starts.
        between_machines: the same between machines of one type that are rented.
    """

    more_is_slower: bool
    slope: float
    paced_slope: float
    gauges: tuple[str, ...]
    scatter: float
    between_boots: float
    between_machines: float = MACHINE_SPREAD


_PROCESSORS = (watch.HOST_GFLOPS, watch.GAUGE_US)
METRICS: Mapping[str, WatchedMetric] = {
    watch.STEP_TIME: WatchedMetric(True, 1.0, 0.0, _PROCESSORS, 0.03, 0.08),
    watch.STEP_CPU: WatchedMetric(True, 1.0, 1.0, _PROCESSORS, 0.03, 0.08),
    watch.CPU_SHARE: WatchedMetric(False, 0.0, -1.0, _PROCESSORS, 0.015, 0.02, 0.02),
    watch.MEMORY: WatchedMetric(False, 1.0, 1.0, (watch.HOST_MEMORY,), 0.03, 0.1),
    watch.TO_SERVER: WatchedMetric(False, 0.0, 0.0, (), 0.003, 0.02),
    watch.FROM_SERVER: WatchedMetric(False, 0.0, 0.0, (), 0.003, 0.02),
}
"""What is judged of a probe."""
WORDS: Mapping[str, str] = {
    watch.STEP_TIME: "time of a step",
    watch.STEP_CPU: "processor time of a step",
    watch.CPU_SHARE: "share of a core",
    watch.MEMORY: "memory",
    watch.TO_SERVER: "to the server",
    watch.FROM_SERVER: "from the server",
}
"""Their names in sentences and on axes."""
_WATCHED = pl.DataFrame(
    [
        (name, 1.0 if metric.more_is_slower else -1.0, metric.slope, metric.paced_slope)
        for name, metric in METRICS.items()
    ],
    schema=["metric", "sign", "slope", "paced_slope"],
    orient="row",
)
_GAUGES = pl.DataFrame(
    [
        (name, gauge, rank, 1.0 if gauge == watch.GAUGE_US else -1.0, gauge == watch.HOST_GFLOPS)
        for name, metric in METRICS.items()
        for rank, gauge in enumerate(metric.gauges)
    ],
    schema=["metric", "gauge", "rank", "sign", "paced"],
    orient="row",
)


def in_words(metric: str) -> str:
    """Return a metric in words; as it has landed, if nothing here judges it."""
    return WORDS.get(metric, metric)


def readings(windows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each run and metric of `METRICS`.

    Args:
        windows: rows of raw.sample of probes `watch` (run_id, metric, window, value), and of their
            runs started_at, boot (which start of the host, any text) and machine (any text, the
            same for all of one machine).

    Returns:
        run_id, started_at, boot, machine, metric, value (geometric mean of the windows), slowness
        (of its logarithm), host (slowness of the host meanwhile; null where it is not known, and of
        links), paced (whether cores were steady) and noise (standard error of slowness, of what
        windows scatter beyond the host).

    Raises:
        BadInput: a figure is no positive number.
    """
    watched_windows = windows.filter(pl.col("metric").is_in([*METRICS, *_GAUGES["gauge"]]))
    _check_positive(watched_windows)
    of_windows = (
        watched_windows.join(_WATCHED, on="metric")
        .join(_host(watched_windows), on=["run_id", "window", "metric"], how="left")
        .with_columns(
            slowness=pl.col("sign") * pl.col("value").log(),
            paced=pl.col("paced").fill_null(value=False),
        )
        .with_columns(
            beyond=pl.col("slowness")
            - pl.when("paced").then("paced_slope").otherwise("slope") * pl.col("host").fill_null(0)
        )
    )
    return (
        of_windows.group_by("run_id", "metric", maintain_order=True)
        .agg(
            pl.col("started_at", "boot", "machine", "sign", "paced").first(),
            pl.col("slowness", "host").mean(),
            noise=(pl.col("beyond").std() / pl.len().sqrt()).fill_null(0.0),
        )
        .with_columns(value=(pl.col("sign") * pl.col("slowness")).exp())
        .drop("sign")
    )


def _host(windows: pl.DataFrame) -> pl.DataFrame:
    """Return run_id, window, metric, host and paced, by the best gauge that a window has."""
    return (
        windows.select("run_id", "window", "value", gauge="metric")
        .join(_GAUGES, on="gauge")
        .sort("rank", maintain_order=True)
        .unique(["run_id", "window", "metric"], keep="first", maintain_order=True)
        .select("run_id", "window", "metric", "paced", host=pl.col("sign") * pl.col("value").log())
    )


def _check_positive(windows: pl.DataFrame) -> None:
    is_fine = pl.col("value").is_finite() & (pl.col("value") > 0)
    strange = windows.filter(~is_fine.fill_null(value=False))
    if not strange.is_empty():
        run_id, metric, value = strange.select("run_id", "metric", "value").row(0)
        raise BadInput(
            f"run {run_id}: expected {metric} to be a positive number, found {value}; set that run "
            "aside (it cannot be judged) and probe again"
        )
