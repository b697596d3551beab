"""How gRPC served streams: the window that receivers announced, and streams piece by piece.

Source: Li et al., ICPE 2020, section 3.2.2: a stream that is longer than the flow-control window
WIN is suspended once, after WIN bytes, and then sent to its end; shorter ones are not suspended.
"""

import polars as pl


def last_window_bytes(frames: pl.DataFrame, direction: str) -> int | None:
    """Return the WIN that receivers of a direction announced last; None: nothing was captured.

    Args:
        frames: table http2_frame of one run.
        direction: downlink or uplink.
    """
    sender = "server" if direction == "downlink" else "worker"
    announced = frames.filter(pl.col("sender") != sender, direction=direction, type="SETTINGS")
    windows_bytes = announced.drop_nulls("value").sort("time_us")["value"].to_list()
    return windows_bytes[-1] if windows_bytes else None


def pieces(
    transfers: pl.DataFrame, frames: pl.DataFrame, direction: str, step: int
) -> pl.DataFrame:
    """Return the stretches in which a stream's data went out without data of others in between.

    A piece lasts until the next one of its server begins, the last of a stream until the stream's
    last packet.

    Args:
        transfers: rows of `captured.transfers`, of one run.
        frames: table http2_frame of that run.
        direction: downlink or uplink.
        step: the traced step.

    Returns:
        server, stream, operation, size_bytes (of the whole tensor), bytes (sent in this piece),
        start_us and end_us since the step's start, in order of time.
    """
    served = transfers.filter(direction=direction, step=step).select(
        "server", "stream", "operation", "size_bytes", "first_us", "last_us"
    )
    sender = "server" if direction == "downlink" else "worker"
    data = (
        frames.filter(direction=direction, sender=sender, type="DATA")
        .join(served, on=["server", "stream"])
        .sort("server", "time_us", maintain_order=True)
    )
    of_stream = ["server", "stream"]
    since_first_us = pl.col("time_us") - pl.col("time_us").min().over(of_stream)
    runs = data.with_columns(
        start_us=since_first_us + pl.col("first_us"), piece=pl.struct(of_stream).rle_id()
    )
    stretches = runs.group_by(
        "piece", *of_stream, "operation", "size_bytes", maintain_order=True
    ).agg(pl.col("start_us").min(), pl.col("last_us").first(), bytes=pl.col("length_bytes").sum())
    next_us = pl.col("start_us").shift(-1).over("server").fill_null(pl.col("last_us"))
    is_last = pl.col("piece") == pl.col("piece").max().over(of_stream)
    end_us = pl.when(is_last).then(pl.col("last_us")).otherwise(next_us)
    return stretches.with_columns(end_us=end_us).select(
        *of_stream, "operation", "size_bytes", "bytes", "start_us", "end_us"
    )
