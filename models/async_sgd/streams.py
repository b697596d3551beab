"""Streams on a link: what a worker sends next, and when each stream ends (Table 1 of the paper)."""

from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

import polars as pl

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


# What a worker sends next on a link: streams as gRPC serves them.


class Chunk(NamedTuple):
    """A part of an operation that runs without a break; `last` completes the operation.

    `size` is bytes of a transfer, seconds of a computation.
    """

    operation: int
    size: float
    last: bool


class _QueuedStream(NamedTuple):
    rank: int
    arrival: int
    operation: int
    remaining_bytes: float
    served: bool


class StreamScheduler:
    """The streams of one worker in one direction, of which at most one is being served.

    With flow control a stream sends up to `window_bytes` when it is first selected; what is left
    waits at the end and is sent whole when it is selected again. Without it (`window_bytes` None)
    streams are sent whole. Streams are selected in order of arrival or, where `ranks` gives every
    operation a rank, by smallest rank; streams that wait for their second service then come after
    all that wait for their first.

    Source: Li et al., "Throughput Prediction of Asynchronous SGD in TensorFlow", ICPE 2020,
    sections 3.2.2 and 3.3.
    """

    def __init__(self, window_bytes: float | None, ranks: Sequence[int] | None = None) -> None:
        self._window_bytes = float("inf") if window_bytes is None else window_bytes
        self._ranks = ranks
        self._rank_of_served = 0 if ranks is None else max(ranks, default=0) + 1
        self._queue: list[_QueuedStream] = []
        self._arrivals = 0
        self._preempted: tuple[int, float] | None = None

    def __bool__(self) -> bool:
        """Whether anything is left to select, a stream between its two services included."""
        return bool(self._queue) or self._preempted is not None

    def add(self, operation: int, size_bytes: float) -> None:
        """Let a transfer of `size_bytes` wait for its first service."""
        rank = 0 if self._ranks is None else self._ranks[operation]
        self._push(rank, operation, size_bytes, served=False)

    def next_chunk(self) -> Chunk:
        """Select what to send once the chunk selected before has been sent.

        Raises:
            IndexError: nothing is left to select.
        """
        if self._preempted is not None:
            self._push(self._rank_of_served, *self._preempted, served=True)
            self._preempted = None
        stream = heappop(self._queue)
        left_bytes = stream.remaining_bytes - self._window_bytes
        if stream.served or left_bytes <= 0:
            return Chunk(stream.operation, stream.remaining_bytes, last=True)
        self._preempted = (stream.operation, left_bytes)
        return Chunk(stream.operation, self._window_bytes, last=False)

    def _push(self, rank: int, operation: int, size_bytes: float, *, served: bool) -> None:
        heappush(self._queue, _QueuedStream(rank, self._arrivals, operation, size_bytes, served))
        self._arrivals += 1
