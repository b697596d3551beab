"""TCP segments of one direction of a connection → the bytes that were sent, in order."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from warehouse import limits

PENDING_BYTES = 8 * 2**20
"""A hole before more than this much later data will not be filled: the capture lost a packet."""

_SEGMENT_BYTES = 256
"""What a segment that waits takes in memory beside its data."""


class Run(NamedTuple):
    """Bytes that follow on those before; `after_hole` where the capture begins or lost some."""

    time_us: int
    data: bytes
    length: int
    after_hole: bool


@dataclass
class Waiting:
    """How much memory the segments of a file take that wait for bytes before them."""

    size_bytes: int = 0


class Reassembly:
    """Puts the segments of one flow in order and leaves out what was sent twice.

    The first segment sets where the flow begins. `waiting` is what all flows of a file share: past
    `limits.WAITING_BYTES`, as past `PENDING_BYTES` of one flow, a hole is left as it is.
    """

    def __init__(self, waiting: Waiting) -> None:
        self._waiting = waiting
        self._next: int | None = None
        self._hole = False
        self._pending: list[tuple[int, int, bytes, int]] = []
        self._pending_bytes = 0
        self.missing_bytes = 0
        """Bytes in holes that were never filled, as far as later packets tell."""
        self._sent: int | None = None

    def add(self, time_us: int, sequence: int, data: bytes, length: int) -> Iterator[Run]:
        """Yield what is in order now that this segment has come."""
        if self._next is None:
            self._next, self._hole = sequence, True
        position = self._next + self._ahead(sequence)
        if position <= self._next and not self._pending:
            if (run := self._taken(position, time_us, data, length)) is not None:
                yield run
            return
        heappush(self._pending, (position, time_us, data, length))
        self._wait(length + _SEGMENT_BYTES)
        full = self._waiting.size_bytes > limits.WAITING_BYTES
        yield from self._in_order(skip=full or self._pending_bytes > PENDING_BYTES)

    def sent(self, sequence: int) -> None:
        """Take note that all bytes before this one were sent."""
        self._sent = sequence

    def rest(self) -> Iterator[Run]:
        """Yield what still waits for a hole to be filled, and forget where the flow was."""
        while self._pending:
            yield from self._in_order(skip=True)
        if self._next is not None and self._sent is not None:
            # The end of a connection takes a number too, which is no byte.
            self.missing_bytes += max(self._ahead(self._sent) - 1, 0)
        self._next = self._sent = None

    def _wait(self, size_bytes: int) -> None:
        self._pending_bytes += size_bytes
        self._waiting.size_bytes += size_bytes

    def _ahead(self, sequence: int) -> int:
        """Return the distance from the next byte, modulo 2³²: sequence numbers may wrap."""
        assert self._next is not None
        return (sequence - self._next + 2**31) % 2**32 - 2**31

    def _in_order(self, *, skip: bool) -> Iterator[Run]:
        assert self._next is not None
        while self._pending and (skip or self._pending[0][0] <= self._next):
            position, time_us, data, length = heappop(self._pending)
            self._wait(-length - _SEGMENT_BYTES)
            skip = False
            if (run := self._taken(position, time_us, data, length)) is not None:
                yield run

    def _taken(self, position: int, time_us: int, data: bytes, length: int) -> Run | None:
        """Return what is new of a segment, before which nothing comes any more."""
        assert self._next is not None
        if position > self._next:
            self._hole = True
            self.missing_bytes += position - self._next
        known = max(self._next - position, 0)
        if known >= length:
            return None
        self._next = position + length
        hole, self._hole = self._hole, False
        return Run(time_us, data[known:] if known else data, length - known, hole)
