"""How long each phase of a profiled step took, as coarse models see it: one after the other.

A step is cut at four moments: when its first downlink data were on the link and when its last, when
the first uplink data after that were, and when the last. Overlap within a phase stays in it.
"""

from statistics import fmean

import polars as pl

from models.profiled_run import single_flow_Bps
from models.system import Tables
from warehouse.records import BadInput

PHASES = ("start_s", "downlink_s", "compute_s", "uplink_s", "update_s")
DIRECTIONS = ("downlink", "uplink")


def transfer_s(tables: Tables) -> dict[tuple[int, str], float]:
    """Return how long a link is busy with one step, by (server, direction), at one flow's goodput.

    Raises:
        BadInput: no bytes go in a direction, or its speed was not measured.
    """
    transfers = _transfers(tables["operation"])
    sizes = transfers.group_by("server", "direction").agg(pl.col("size_bytes").sum())
    speed_Bps = _speed_Bps(tables)
    return {
        (server, direction): size / speed_Bps[direction]
        for server, direction, size in sizes.sort("server", "direction").iter_rows()
    }


def phases(tables: Tables) -> pl.DataFrame:
    """Return the phases of each traced step of one run.

    Where packets were captured they tell when data were on the link, and steps without captured
    data in a direction are left out. Where none were, a direction starts with its first recorded
    transfer and ends when a link that sends at the measured speed, in the order of recorded
    starts, would have sent everything, or when the last record ends if that is earlier. Steps of
    which the tracer lost a record are left out.

    Args:
        tables: operation, timing, step and stream (it may be empty) of one run, and link.

    Returns:
        step and, in seconds, start_s (until the first downlink data), downlink_s, compute_s (until
        the first uplink data after the downlink), uplink_s, update_s (until the last operation has
        ended). They add up to the time from the step's start to the end of its last operation.

    Raises:
        BadInput: no transfers in a direction, or no whole step.

    Source: Li et al., ICPE 2020, section 1, on Lin et al., MASCOTS 2018.
    """
    transfers = _transfers(tables["operation"])
    if tables["stream"].height:
        spans = _captured(transfers, tables["step"], tables["stream"])
    else:
        spans = _modelled(transfers, tables)
    cuts = _cuts(spans, _ends(tables))
    if cuts.is_empty():
        raise BadInput(
            "table timing: expected a traced step with all its operations, and data in both "
            "directions, found none; profile again"
        )
    moments = ["began_us", "downlink_us", "downloaded_us", "uplink_us", "uploaded_us", "end_us"]
    return cuts.with_columns(began_us=pl.lit(0.0)).select(
        "step",
        *(
            ((pl.col(after) - pl.col(before)) / 1e6).alias(phase)
            for phase, before, after in zip(PHASES, moments[:-1], moments[1:], strict=True)
        ),
    )


def compute_busy_s(tables: Tables) -> float:
    """Return the mean seconds of a traced step in which the worker computed anything.

    Raises:
        BadInput: no whole step.
    """
    spans = (
        _intervals(tables["timing"])
        .join(tables["operation"].filter(resource="worker"), on="operation", how="semi")
        .join(_ends(tables), on="step", how="semi")
        .sort("step", "start_us", "end_us")
    )
    before = pl.col("end_us").cum_max().shift(1).over("step").fill_null(0)
    fresh = pl.col("end_us") - pl.max_horizontal("start_us", before)
    busy = (
        spans.with_columns(busy_us=fresh.clip(lower_bound=0))
        .group_by("step")
        .agg(pl.col("busy_us").sum())
    )
    if busy.is_empty():
        raise BadInput(
            "table timing: expected computations of the worker in whole traced steps, found none; "
            "profile again"
        )
    return fmean(busy["busy_us"]) / 1e6


def _speed_Bps(tables: Tables) -> dict[str, float]:
    return {direction: single_flow_Bps(tables["link"], direction) for direction in DIRECTIONS}


def _transfers(operations: pl.DataFrame) -> pl.DataFrame:
    """Return operation, server, direction and size_bytes of the transfers that carry something."""
    carried = operations.filter(
        pl.col("resource").is_in(DIRECTIONS), pl.col("size_bytes") > 0
    ).select("operation", pl.col("server").fill_null(0), "size_bytes", direction="resource")
    for direction in DIRECTIONS:
        if direction not in carried["direction"]:
            raise BadInput(
                f"table operation: expected {direction} transfers that carry bytes, found none; "
                "profile again"
            )
    return carried


def _intervals(timings: pl.DataFrame) -> pl.DataFrame:
    return timings.select(
        pl.col("step", "operation").cast(pl.Int32),
        pl.col("start_us").cast(pl.Int64),
        end_us=pl.col("start_us").cast(pl.Int64) + pl.col("duration_us"),
    )


def _ends(tables: Tables) -> pl.DataFrame:
    """Return step and end_us of the traced steps that have all operations of the run."""
    traced = tables["step"].filter("traced").select(pl.col("step").cast(pl.Int32))
    timings = tables["timing"]
    return (
        _intervals(timings)
        .join(traced, on="step", how="semi")
        .group_by("step")
        .agg(pl.col("end_us").max(), timed=pl.col("operation").n_unique())
        .filter(pl.col("timed") == timings["operation"].n_unique())
        .select("step", "end_us")
    )


def _captured(transfers: pl.DataFrame, steps: pl.DataFrame, streams: pl.DataFrame) -> pl.DataFrame:
    """Return step, direction, first_us and last_us of each captured transfer."""
    starts = steps.filter("traced").select(pl.col("step").cast(pl.Int32), step_us="start_us")
    return (
        streams.select(pl.col("step", "operation").cast(pl.Int32), "first_us", "last_us")
        .join(transfers, on="operation")
        .join(starts, on="step")
        .select(*("step", "direction"), pl.col("first_us", "last_us") - pl.col("step_us"))
    )


def _modelled(transfers: pl.DataFrame, tables: Tables) -> pl.DataFrame:
    """Return step, direction, first_us and last_us of each recorded transfer.

    The last of them all to leave a link that serves in order leaves when the longest chain is
    over: the start of some transfer, plus the time for it and all that started later. So last_us,
    of which only the largest of a step and direction counts, is the end of the transfer's chain.
    """
    recorded = _intervals(tables["timing"]).join(transfers, on="operation")
    us = 1e6 * pl.col("size_bytes") / pl.col("direction").replace_strict(_speed_Bps(tables))
    group = ["step", "direction", "server"]
    return (
        recorded.sort("step", "start_us", "operation")
        .with_columns(sent_us=pl.col("start_us") + us.cum_sum(reverse=True).over(group))
        .select(
            *("step", "direction"),
            first_us=pl.col("start_us").cast(pl.Float64),
            last_us=pl.min_horizontal("sent_us", pl.col("end_us").max().over(group)),
        )
    )


def _cuts(spans: pl.DataFrame, ends: pl.DataFrame) -> pl.DataFrame:
    """Return step, downlink_us, downloaded_us, uplink_us, uploaded_us and end_us, in that order."""
    downlinks = spans.filter(pl.col("direction") == "downlink")
    downlink = downlinks.group_by("step").agg(
        downlink_us=pl.col("first_us").min(), downloaded_us=pl.col("last_us").max()
    )
    uplinks = spans.filter(pl.col("direction") == "uplink").join(downlink, on="step")
    later = pl.col("first_us") >= pl.col("downloaded_us")
    uplink = uplinks.group_by("step").agg(
        uplink_us=pl.col("first_us").filter(later).min(), uploaded_us=pl.col("last_us").max()
    )
    within = (
        ends.join(downlink, on="step")
        .join(uplink, on="step")
        .with_columns(pl.col("uplink_us").fill_null(pl.col("downloaded_us")))
        .sort("step")
    )
    moments = ["downlink_us", "downloaded_us", "uplink_us", "uploaded_us"]
    running = [
        pl.max_horizontal(pl.lit(0.0), *moments[: place + 1]).alias(name)
        for place, name in enumerate(moments)
    ]
    ordered = within.with_columns(running)
    return ordered.with_columns(pl.min_horizontal(name, "end_us").alias(name) for name in moments)
