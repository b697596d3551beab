"""How well the model of streams on a link tells when each stream ends (Table 1 of the paper)."""

from collections.abc import Iterator

import polars as pl

from models.async_sgd.scheduler import StreamScheduler
from warehouse.records import BadInput, Record


class EndTimeErrors(Record):
    """Statistics of |predicted − captured| / captured, of end times since the step's start."""

    direction: str
    mean: float
    median: float
    p95: float
    maximum: float
    n: int


def end_times(
    transfers: pl.DataFrame, direction: str, speed_Bps: float, window_bytes: float | None
) -> pl.DataFrame:
    """Predict when each captured stream's last packet comes, from when each one started.

    Each step is predicted from the recorded starts of its own transfers: a link sends at
    `speed_Bps`, one stream at a time, as the scheduler of streams says.

    Args:
        transfers: rows of `captured.transfers`, of one run.
        direction: downlink (as in the paper) or uplink.
        speed_Bps: goodput of the link in that direction.
        window_bytes: WIN; None if streams are not suspended.

    Returns:
        step, operation, size_bytes, predicted_us and captured_us since the step's start, and
        error = |predicted − captured| / captured.

    Source: Li et al., ICPE 2020, section 3.2.2.
    """
    rows = transfers.filter(direction=direction).sort("step", "server", "start_us", "stream")
    ends: list[float] = []
    for _, link in rows.group_by("step", "server", maintain_order=True):
        sent = dict(_sent_us(link, speed_Bps, window_bytes))
        ends += [sent[operation] for operation in link["operation"]]
    captured = pl.col("last_us")
    return rows.with_columns(predicted_us=pl.Series(ends, dtype=pl.Float64)).select(
        *("step", "operation", "size_bytes", "predicted_us"),
        captured_us=captured,
        error=(pl.col("predicted_us") - captured).abs() / captured,
    )


def errors(predicted: pl.DataFrame, direction: str) -> EndTimeErrors:
    """Return the statistics that Table 1 lists.

    Raises:
        BadInput: nothing was predicted.
    """
    error = predicted["error"]
    if error.is_empty():
        raise BadInput(f"no captured {direction} streams; profile with capture")
    mean, median, p95, maximum = predicted.select(
        mean=pl.col("error").mean(),
        median=pl.col("error").median(),
        p95=pl.col("error").quantile(0.95, "linear"),
        maximum=pl.col("error").max(),
    ).row(0)
    return EndTimeErrors(
        direction=direction, mean=mean, median=median, p95=p95, maximum=maximum, n=len(error)
    )


def _sent_us(
    link: pl.DataFrame, speed_Bps: float, window_bytes: float | None
) -> Iterator[tuple[int, float]]:
    """Yield (operation, us) as each stream of one step on one link has been sent."""
    scheduler = StreamScheduler(window_bytes)
    waiting = list(reversed(link.select("start_us", "operation", "size_bytes").rows()))
    now_us = 0.0
    while waiting or scheduler:
        if not scheduler:
            now_us = max(now_us, waiting[-1][0])
        while waiting and waiting[-1][0] <= now_us:
            _, operation, size_bytes = waiting.pop()
            scheduler.add(operation, size_bytes)
        chunk = scheduler.next_chunk()
        now_us += chunk.size / speed_Bps * 1e6
        if chunk.last:
            yield chunk.operation, now_us
