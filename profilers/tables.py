"""Frames of raw tables that several probes fill."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from profilers.nodes.tf_jobs import StepTime
from profilers.probe import Metric
from profilers.steady.host import MeasuredValue

SampleRow = tuple[str, str, int | None, float]
"""Metric, unit, window (None: of the whole run) and value."""
StepRow = tuple[int, int, int | None, bool, int, int]
"""Worker, step, window (None: in none), whether it was traced, start and end (us of UTC)."""
_STEP = {
    "worker": pl.Int16,
    "step": pl.Int32,
    "window": pl.Int16,
    "traced": pl.Boolean,
    "start_us": pl.Int64,
    "end_us": pl.Int64,
}


def issue_rows(times_s: Mapping[str, float], turn: int | None = None) -> Iterator[SampleRow]:
    """Yield what a host takes to issue operators, by kind, as samples of probe `inventory`."""
    for kind, seconds in times_s.items():
        yield f"inventory_issue_{kind}_s", "s", turn, seconds


def sample_table(rows: Iterable[SampleRow]) -> pl.DataFrame:
    """Return table sample."""
    schema = {"metric": pl.String, "unit": pl.String, "window": pl.Int16, "value": pl.Float64}
    return pl.DataFrame(list(rows), schema, orient="row")


def window_rows(
    metric: Metric, windows: Sequence[tuple[float, MeasuredValue[Any]]]
) -> Iterator[SampleRow]:
    """Yield samples of windows: what was measured, and the host's idle and stolen time."""
    for window, (value, measured) in enumerate(windows):
        yield metric.name, metric.unit, window, value
        yield "idle_cpu_fraction", "1", window, measured.idle
        yield "stolen_cpu_fraction", "1", window, measured.stolen


def step_table(rows: Iterable[StepRow]) -> pl.DataFrame:
    """Return table step."""
    return pl.DataFrame(list(rows), _STEP, orient="row")


def traced_step_table(traced: Sequence[StepTime], untraced: Sequence[StepTime]) -> pl.DataFrame:
    """Return table step of one worker; both kinds of steps are numbered by themselves."""
    return step_table(
        (0, number, None, is_traced, *time)
        for is_traced, times in ((True, traced), (False, untraced))
        for number, time in enumerate(times)
    )


def operation_time(pieces: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return table operation_time of the steps of all pieces.

    An operation that runs several times in a step counts with their sum.

    Args:
        pieces: operation, step (numbered in each piece by itself) and us, a row per execution.
    """
    sums = pl.concat(
        piece.group_by("operation", "step").agg(pl.col("us").sum()) for piece in pieces
    )
    us = pl.col("us")
    return (
        sums.group_by("operation")
        .agg(
            pl.len().cast(pl.Int32).alias("steps"),
            us.mean().alias("mean_us"),
            us.median().alias("median_us"),
            us.std().fill_null(0.0).alias("sd_us"),
            us.min().cast(pl.Float64).alias("min_us"),
            us.quantile(0.95, "linear").alias("p95_us"),
        )
        .sort("operation")
    )
