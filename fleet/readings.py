"""What a probe `watch` says of a node type, a figure a metric, with the noise within the probe."""

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from profilers import watch
from warehouse.records import BadInput

WINDOWS = ("run_id", "started_at", "boot", "metric", "window", "value")
"""Columns of what `readings` takes: rows of raw.sample, and of their runs when they began and which
start of the host they are of (any text; `boot_id`, say)."""


@dataclass(frozen=True)
class Watched:
    """How a metric tells that a node is slow, and what is known before any history.

    Slowness is the logarithm of the figure, or less that of it where more is faster; so is that of
    the host. A slope is how much of the host's slowness a node has.

    Attributes:
        more_is_slower: seconds, not speeds.
        slope: expected where nodes have a share of the host's cores as they are.
        paced_slope: where their cores are steady (`profilers.steady.pacing`): what the host does to
            steps is made up for, by more or less processor time in each second.
        follows_host: whether there is a slope at all: links have none.
        between_boots: standard deviation of slowness between starts of a host.
    """

    more_is_slower: bool
    slope: float
    paced_slope: float
    follows_host: bool
    between_boots: float


METRICS: Mapping[str, Watched] = {
    watch.STEP_TIME: Watched(True, 1.0, 0.0, follows_host=True, between_boots=0.08),
    watch.STEP_CPU: Watched(True, 1.0, 1.0, follows_host=True, between_boots=0.08),
    watch.CPU_SHARE: Watched(False, 0.0, -1.0, follows_host=True, between_boots=0.02),
    watch.MEMORY: Watched(False, 0.5, 0.5, follows_host=True, between_boots=0.1),
    watch.TO_SERVER: Watched(False, 0.0, 0.0, follows_host=False, between_boots=0.02),
    watch.FROM_SERVER: Watched(False, 0.0, 0.0, follows_host=False, between_boots=0.02),
}
"""What is judged of a probe."""
_WATCHED = pl.DataFrame(
    [
        (name, 1.0 if one.more_is_slower else -1.0, one.slope, one.paced_slope, one.follows_host)
        for name, one in METRICS.items()
    ],
    schema=["metric", "sign", "slope", "paced_slope", "follows_host"],
    orient="row",
)


def readings(windows: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each run and metric of `METRICS`.

    Args:
        windows: columns `WINDOWS`, of any metrics of probes `watch`.

    Returns:
        run_id, started_at, boot, metric, value (geometric mean of the windows), slowness (of its
        logarithm), host (slowness of the host meanwhile; null where it is not known, and of links),
        paced (whether cores were steady) and noise (standard error of slowness, of what windows
        scatter beyond the host).

    Raises:
        BadInput: columns are missing, or a figure is no positive number.
    """
    if missing := [name for name in WINDOWS if name not in windows.columns]:
        raise BadInput(f"windows of probes: expected columns {', '.join(WINDOWS)}; no {missing[0]}")
    ours = windows.filter(pl.col("metric").is_in([*METRICS, watch.GAUGE_US, watch.HOST_GFLOPS]))
    _check_positive(ours)
    speeds = _host(ours)
    of_windows = (
        ours.join(_WATCHED, on="metric")
        .join(speeds, on=["run_id", "window"], how="left")
        .with_columns(
            slowness=pl.col("sign") * pl.col("value").log(),
            host=pl.when("follows_host").then("host"),
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
            pl.col("started_at", "boot", "sign", "paced").first(),
            pl.col("slowness", "host").mean(),
            noise=(pl.col("beyond").std() / pl.len().sqrt()).fill_null(0.0),
        )
        .with_columns(value=(pl.col("sign") * pl.col("slowness")).exp())
        .drop("sign")
    )


def _host(windows: pl.DataFrame) -> pl.DataFrame:
    """Return run_id, window, host and paced: by the speed of steady cores, else by the gauge."""
    slowness = {
        watch.HOST_GFLOPS: -pl.col("value").log(),
        watch.GAUGE_US: pl.col("value").log(),
    }
    both = [
        windows.filter(pl.col("metric") == name).select(
            "run_id", "window", host=of_value, paced=pl.lit(name == watch.HOST_GFLOPS)
        )
        for name, of_value in slowness.items()
    ]
    return pl.concat(both).unique(["run_id", "window"], keep="first", maintain_order=True)


def _check_positive(windows: pl.DataFrame) -> None:
    is_fine = pl.col("value").is_finite() & (pl.col("value") > 0)
    strange = windows.filter(~is_fine.fill_null(value=False))
    if not strange.is_empty():
        run_id, metric, value = strange.select("run_id", "metric", "value").row(0)
        raise BadInput(
            f"run {run_id}: expected {metric} to be a positive number, found {value}; set that run "
            "aside (it cannot be judged) and probe again"
        )
