"""What a worker sends next on a link: streams as gRPC serves them."""

from collections.abc import Sequence
from heapq import heappop, heappush
from typing import NamedTuple


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
