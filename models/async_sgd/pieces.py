"""How the streams of one step were sent, piece by piece (Figs. 3(a) and 11 of the paper)."""

import numpy as np
import polars as pl


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
    found = runs.group_by("piece", *of_stream, "operation", "size_bytes", maintain_order=True).agg(
        pl.col("start_us").min(), pl.col("last_us").first(), bytes=pl.col("length_bytes").sum()
    )
    next_us = pl.col("start_us").shift(-1).over("server").fill_null(pl.col("last_us"))
    is_last = pl.col("piece") == pl.col("piece").max().over(of_stream)
    end_us = pl.when(is_last).then(pl.col("last_us")).otherwise(next_us)
    return found.with_columns(end_us=end_us).select(
        *of_stream, "operation", "size_bytes", "bytes", "start_us", "end_us"
    )


def rate(sent: pl.DataFrame, bin_us: int) -> pl.DataFrame:
    """Return what a link carried over time (Fig. 3(a)).

    Args:
        sent: rows of `pieces`; each sends its bytes evenly.
        bin_us: length of the bins that are averaged.

    Returns:
        start_us of each bin, from the step's start to the last piece, and Bps, bytes per second.
    """
    starts_us, ends_us = sent["start_us"].to_numpy(), sent["end_us"].to_numpy()
    last = -(-int(ends_us.max()) // bin_us) if sent.height else 0
    edges_us = np.arange(last + 1) * bin_us
    lasting_us = np.maximum(ends_us - starts_us, 1)
    done = np.clip((edges_us[:, None] - starts_us) / lasting_us, 0, 1)
    carried = np.diff(done @ sent["bytes"].to_numpy().astype(float))
    return pl.DataFrame({"start_us": edges_us[:-1], "Bps": carried / bin_us * 1e6})
