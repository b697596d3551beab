"""Packets of a capture → TCP connections: what each end sent, and its HTTP/2 frames.

Payload is let go as it passes. A connection is HTTP/2 if its preface was captured, or HEADERS of
both ends on one stream.
"""

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from profilers.readers.http2 import TYPES, Frame, Framing
from profilers.readers.imported import Kept
from profilers.readers.reassembly import Reassembly, Run, Waiting
from profilers.readers.tcp import Flow, Seen, packets
from warehouse import limits
from warehouse.records import BadInput


@dataclass(slots=True)
class Stream:
    """What one end sent on one HTTP/2 stream."""

    first_us: int
    size_bytes: int = 0
    last_us: int = 0
    segments: int = 0

    @property
    def figures(self) -> tuple[int, int, int, int]:
        """Bytes, first and last packet in us, and segments."""
        return self.size_bytes, self.first_us, self.last_us, self.segments


@dataclass(slots=True)
class Sender:
    """One direction of a connection: what was sent, and its HTTP/2 frames as columns."""

    flow: Flow
    reassembly: Reassembly
    memory: "Memory"
    framing: Framing = field(default_factory=Framing)
    size_bytes: int = 0
    first_us: int = 0
    last_us: int = 0
    served: int = 0
    asked_us: dict[int, int] = field(default_factory=dict)
    """When the first HEADERS of each stream began."""
    streams: dict[int, Stream] = field(default_factory=dict)
    kinds: "array[int]" = field(default_factory=lambda: array("b"))
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    """Stream, time in us, length in bytes and value (-1: none) of each frame."""

    def take(self, runs: Iterable[Run]) -> None:
        """Take in bytes that follow on those before."""
        for run in runs:
            self.first_us = min(self.first_us, run.time_us) if self.size_bytes else run.time_us
            self.last_us = max(self.last_us, run.time_us)
            self.size_bytes += run.length
            for frame in self.framing.feed(run):
                self._keep(frame)

    def _keep(self, frame: Frame) -> None:
        self.memory.frames.event()
        value = -1 if (said := frame.value) is None else said
        self.kinds.append(TYPES.index(frame.type))
        self.numbers.extend((frame.stream, frame.first_us, frame.length_bytes, value))
        if frame.type == "HEADERS":
            if frame.stream not in self.asked_us:
                self.memory.stream()
                self.asked_us[frame.stream] = frame.first_us
        elif frame.type == "DATA":
            stream = self.streams.get(frame.stream)
            if stream is None:
                self.memory.stream()
                stream = self.streams[frame.stream] = Stream(frame.first_us)
            stream.size_bytes += frame.length_bytes
            stream.last_us = max(stream.last_us, frame.last_us)
            stream.segments += frame.stream != self.served
            self.served = frame.stream


class Memory:
    """Counts what is kept of a file, so that its memory has a bound."""

    def __init__(self, path: Path, seen: Seen) -> None:
        self._path, self._seen = path, seen
        self._connections = self._streams = 0
        self.frames = Kept(path)

    def connection(self) -> None:
        """Count a direction of a connection.

        Raises:
            BadInput: it is one more than `limits.CONNECTIONS`.
        """
        self._connections += 1
        if self._connections > limits.CONNECTIONS:
            raise self._too_many(limits.CONNECTIONS, "directions of connections")

    def stream(self) -> None:
        """Count a stream of such a direction.

        Raises:
            BadInput: it is one more than `limits.STREAMS`.
        """
        self._streams += 1
        if self._streams > limits.STREAMS:
            raise self._too_many(limits.STREAMS, "streams")

    def _too_many(self, most: int, what: str) -> BadInput:
        return BadInput(
            f"{self._path}: packet {self._seen.packets:,} begins one more than {most:,} {what}; "
            "import parts of the file"
        )


@dataclass(frozen=True)
class Connection:
    """Both directions of a connection, the client's first where that is known."""

    ends: tuple[Sender, Sender]
    is_http2: bool


def read_connections(path: Path, seen: Seen) -> tuple[list[Connection], int]:
    """Return the connections that carried data, and the time of the first packet in us.

    Raises:
        BadInput: as `tcp.packets`, or more is in it than `limits.EVENTS` (frames),
            `limits.CONNECTIONS` or `limits.STREAMS`.
    """
    memory, waiting = Memory(path, seen), Waiting()
    found: list[Sender] = []
    current: dict[Flow, Sender] = {}
    first_us: int | None = None
    for packet in packets(path, seen):
        first_us = packet.time_us if first_us is None else first_us
        if packet.opens:
            # The ports may be those of a connection before; what came of it comes no more.
            if (old := current.pop(packet.flow, None)) is not None:
                old.take(old.reassembly.rest())
        elif not packet.length and packet.flow in current:
            current[packet.flow].reassembly.sent(packet.sequence)
        if not packet.length:
            continue
        sender = current.get(packet.flow)
        if sender is None:
            memory.connection()
            sender = Sender(packet.flow, Reassembly(waiting), memory)
            current[packet.flow] = sender
            found.append(sender)
        sender.take(
            sender.reassembly.add(packet.time_us, packet.sequence, packet.data, packet.length)
        )
    for sender in current.values():
        sender.take(sender.reassembly.rest())
    return list(_connections(found)), first_us or 0


def _connections(senders: Sequence[Sender]) -> Iterator[Connection]:
    """Pair the k-th of a direction with the k-th of its opposite."""
    waiting: dict[Flow, deque[Sender]] = {}
    for sender in senders:
        if opposite := waiting.get(sender.flow[::-1]):
            yield _connection(opposite.popleft(), sender)
        else:
            waiting.setdefault(sender.flow, deque()).append(sender)
    for left in waiting.values():
        for sender in left:
            silent = Sender(sender.flow[::-1], Reassembly(Waiting()), sender.memory)
            yield _connection(sender, silent)


def _connection(one: Sender, other: Sender) -> Connection:
    for client, server in ((one, other), (other, one)):
        if client.framing.preface:
            return Connection((client, server), is_http2=True)
    both = one.asked_us.keys() & other.asked_us.keys()
    if not both:
        return Connection((one, other), is_http2=False)
    asked = min(both, key=lambda stream: min(one.asked_us[stream], other.asked_us[stream]))
    first = one.asked_us[asked] <= other.asked_us[asked]
    return Connection((one, other) if first else (other, one), is_http2=True)
