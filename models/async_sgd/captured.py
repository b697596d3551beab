"""Captured streams beside the trace's records of the same transfers."""

import polars as pl

_RECEIVER = {"downlink": "worker", "uplink": "server"}


def captured_us(
    streams: pl.DataFrame | None, steps: pl.DataFrame
) -> dict[int, dict[int, tuple[int, int]]]:
    """Return, by traced step and operation, the first and last packet in us since the step's start.

    Streams that carried no tensor of a traced step are left out.
    """
    found: dict[int, dict[int, tuple[int, int]]] = {}
    if streams is None:
        return found
    for step, operation, first_us, last_us in _since_start(streams, steps).iter_rows():
        found.setdefault(step, {})[operation] = first_us, last_us
    return found


def transfers(
    streams: pl.DataFrame, operations: pl.DataFrame, timings: pl.DataFrame, steps: pl.DataFrame
) -> pl.DataFrame:
    """Return one row per captured transfer of one traced run.

    Returns:
        step, operation, direction, server, stream, role (receiver: worker or server), size_bytes
        (of the tensor), segments, and in us since the step's start: start_us and end_us
        (recorded), first_us and last_us (captured).
    """
    packets = _since_start(streams, steps).join(
        streams.select("step", "operation", "stream", "segments"), on=["step", "operation"]
    )
    recorded = timings.select(
        pl.col("step", "operation").cast(pl.Int32),
        "start_us",
        end_us=pl.col("start_us") + pl.col("duration_us"),
    )
    carried = operations.select(
        "operation", "size_bytes", pl.col("server").fill_null(0), direction="resource"
    )
    return (
        packets.join(recorded, on=["step", "operation"])
        .join(carried, on="operation")
        .with_columns(role=pl.col("direction").replace_strict(_RECEIVER))
        .select(
            *("step", "operation", "direction", "server", "stream", "role", "size_bytes"),
            *("segments", "start_us", "end_us", "first_us", "last_us"),
        )
        .sort("step", "first_us", "stream")
    )


def _since_start(streams: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Return step, operation, first_us and last_us, times since the start of the traced step."""
    starts = steps.filter("traced").select(pl.col("step").cast(pl.Int32), step_us="start_us")
    return (
        streams.drop_nulls(["step", "operation"])
        .unique(["step", "operation"], keep="first", maintain_order=True)
        .join(starts, on="step")
        .select(
            "step",
            "operation",
            pl.col("first_us") - pl.col("step_us"),
            pl.col("last_us") - pl.col("step_us"),
        )
    )
