"""TCP segments of one direction → bytes in order → HTTP/2 frames (RFC 9113, section 4.1)."""

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import NamedTuple

from warehouse import limits

# TCP segments of one direction of a connection → the bytes that were sent, in order.


PENDING_BYTES = 8 * 2**20
"""A hole before more than this much later data will not be filled: the capture lost a packet."""

_SEGMENT_BYTES = 256
"""What a segment that waits takes in memory beside its data."""


class ByteRun(NamedTuple):
    """Bytes that follow on those before; `after_hole` where the capture begins or lost some."""

    time_us: int
    data: bytes
    length: int
    after_hole: bool


@dataclass
class PendingBytes:
    """How much memory the segments of a file take that wait for bytes before them."""

    size_bytes: int = 0


class Reassembly:
    """Puts the segments of one flow in order and leaves out what was sent twice.

    The first segment sets where the flow begins. `waiting` is what all flows of a file share: past
    `limits.WAITING_BYTES`, as past `PENDING_BYTES` of one flow, a hole is left as it is.
    """

    def __init__(self, waiting: PendingBytes) -> None:
        self._waiting = waiting
        self._next: int | None = None
        self._hole = False
        self._pending: list[tuple[int, int, bytes, int]] = []
        self._pending_bytes = 0
        self.missing_bytes = 0
        """Bytes in holes that were never filled, as far as later packets tell."""
        self._sent: int | None = None

    def add(self, time_us: int, sequence: int, data: bytes, length: int) -> Iterator[ByteRun]:
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

    def rest(self) -> Iterator[ByteRun]:
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

    def _in_order(self, *, skip: bool) -> Iterator[ByteRun]:
        assert self._next is not None
        while self._pending and (skip or self._pending[0][0] <= self._next):
            position, time_us, data, length = heappop(self._pending)
            self._wait(-length - _SEGMENT_BYTES)
            skip = False
            if (run := self._taken(position, time_us, data, length)) is not None:
                yield run

    def _taken(self, position: int, time_us: int, data: bytes, length: int) -> ByteRun | None:
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
        return ByteRun(time_us, data[known:] if known else data, length - known, hole)


TYPES = (
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
)
HEAD_BYTES = 1024
"""What is kept of a payload: all of a request for a tensor, the beginning of the tensor."""
_HEADER_BYTES = 9
_PREFACE, _PREFACE_REST = b"PRI * HTT", 15
_OF_CONNECTION = {"SETTINGS", "PING", "GOAWAY"}
_FLAGS = {"DATA": 0x09, "HEADERS": 0x2D, "SETTINGS": 0x01, "PING": 0x01, "CONTINUATION": 0x04}
_LENGTHS = {"PRIORITY": 5, "RST_STREAM": 4, "PING": 8, "WINDOW_UPDATE": 4}
_INITIAL_WINDOW_SIZE = 4


class Frame(NamedTuple):
    """One frame: `length_bytes` of payload, of which `head` is the captured beginning.

    `first_us` and `last_us` are the times of the first and last packet that carried a part of it.
    """

    type: str
    stream: int
    length_bytes: int
    first_us: int
    last_us: int
    head: bytes

    @property
    def value(self) -> int | None:
        """A window's increment, or the initial window that SETTINGS announce."""
        if self.type == "WINDOW_UPDATE":
            return int.from_bytes(self.head) & 0x7FFFFFFF
        if self.type == "SETTINGS":
            for start in range(0, len(self.head) - 5, 6):
                if int.from_bytes(self.head[start : start + 2]) == _INITIAL_WINDOW_SIZE:
                    return int.from_bytes(self.head[start + 2 : start + 6])
        return None


class FrameParser:
    """Cuts what one end of a connection sends into frames.

    Lengths count, so payloads may be cut off by the capture. Where a header is missing, framing
    takes up again with the next run of bytes that begins with a plausible header: a connection
    that has been idle always does.
    """

    def __init__(self) -> None:
        self._synchronised = False
        self._header = b""
        self._type: str | None = ""
        self._stream = self._length = self._left = self._first_us = self._last_us = 0
        self._head = b""
        self.tensor_spans: list[tuple[int, int]] = []
        """Spans of the last run's data in which only payload beyond the kept heads stands."""

    def feed(self, run: ByteRun) -> Iterator[Frame]:
        """Yield the frames that end in this run of bytes."""
        self.tensor_spans = []
        if run.after_hole:
            self._lose()
        if not self._synchronised and not _may_begin(run):
            return
        self._synchronised = True
        position = 0
        while position < run.length:
            if self._left:
                position += self._take_payload(run, position)
            else:
                needed = _HEADER_BYTES - len(self._header)
                piece = run.data[position : position + needed]
                position += len(piece)
                if not self._header:
                    self._first_us = self._last_us = run.time_us
                self._header += piece
                if len(self._header) < _HEADER_BYTES:
                    if position < run.length:
                        self._lose()
                    return
                if not self._begin(run.time_us):
                    self._lose()
                    return
            if not self._left and not self._header and self._type:
                yield self._frame()

    def _begin(self, time_us: int) -> bool:
        kind = _kind(self._header)
        if kind is None:
            return False
        self._type = kind
        self._length = int.from_bytes(self._header[:3]) if kind else _PREFACE_REST
        self._stream = int.from_bytes(self._header[5:9])
        self._left, self._head, self._header = self._length, b"", b""
        self._last_us = max(self._last_us, time_us)
        return True

    def _take_payload(self, run: ByteRun, position: int) -> int:
        take = min(self._left, run.length - position)
        wanted = max(HEAD_BYTES - (self._length - self._left), 0)
        self._head += run.data[position : position + min(take, wanted)]
        if wanted < take:
            self.tensor_spans.append((position + wanted, position + take))
        self._left -= take
        self._last_us = max(self._last_us, run.time_us)
        return take

    def _frame(self) -> Frame:
        assert self._type
        return Frame(
            self._type, self._stream, self._length, self._first_us, self._last_us, self._head
        )

    def _lose(self) -> None:
        self._synchronised, self._header, self._left = False, b"", 0


def _may_begin(run: ByteRun) -> bool:
    """Tell whether a run may begin with a header, as far as it goes."""
    if run.length < _HEADER_BYTES:
        return len(run.data) == run.length
    return _kind(run.data[:_HEADER_BYTES]) is not None


def _kind(header: bytes) -> str | None:
    """Return the type of frame a header begins, "" for a client's preface, None for no header."""
    if header == _PREFACE:
        return ""
    if len(header) < _HEADER_BYTES or header[3] >= len(TYPES) or header[5] & 0x80:
        return None
    kind, length = TYPES[header[3]], int.from_bytes(header[:3])
    stream = int.from_bytes(header[5:9])
    if header[4] & ~_FLAGS.get(kind, 0):
        return None
    if _LENGTHS.get(kind, length) != length or (kind == "SETTINGS" and length % 6):
        return None
    if kind != "WINDOW_UPDATE" and (stream == 0) != (kind in _OF_CONNECTION):
        return None
    return kind
