"""How gRPC served streams: the window that receivers announced.

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
    windows_bytes = _windows(frames.filter(direction=direction), sender)["window_bytes"].to_list()
    return windows_bytes[-1] if windows_bytes else None


def _windows(frames: pl.DataFrame, sender: str) -> pl.DataFrame:
    """Return time_us and window_bytes of what receivers announced to a sender, in order."""
    return (
        frames.filter(pl.col("sender") != sender, type="SETTINGS")
        .drop_nulls("value")
        .sort("time_us")
        .select("time_us", window_bytes="value")
    )
