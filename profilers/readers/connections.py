"""Packets of a capture → TCP connections, and which of their streams carried which tensor.

Payload is let go as it passes. A connection is HTTP/2 if its preface was captured, or HEADERS of
both ends on one stream.
"""

import re
from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from profilers.readers.contract import MemoryCounter
from profilers.readers.http2 import TYPES, ByteRun, Frame, FrameParser, PendingBytes, Reassembly
from profilers.readers.tcp import Endpoint, Flow, PacketCounts, packets
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
    memory: "CaptureMemory"
    framing: FrameParser = field(default_factory=FrameParser)
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

    def take(self, runs: Iterable[ByteRun]) -> None:
        """Take in bytes that follow on those before."""
        for run in runs:
            self.first_us = min(self.first_us, run.time_us) if self.size_bytes else run.time_us
            self.last_us = max(self.last_us, run.time_us)
            self.size_bytes += run.length
            for frame in self.framing.feed(run):
                self._keep(frame)

    def _keep(self, frame: Frame) -> None:
        self.memory.frames.event()
        value = -1 if (frame_value := frame.value) is None else frame_value
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


class CaptureMemory:
    """Counts what is kept of a file, so that its memory has a bound."""

    def __init__(self, path: Path, seen: PacketCounts) -> None:
        self._path, self._seen = path, seen
        self._connections = self._streams = 0
        self.frames = MemoryCounter(path)

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
class CapturedConnection:
    """Both directions of a connection, the client's first where that is known."""

    ends: tuple[Sender, Sender]
    is_http2: bool


def read_connections(path: Path, seen: PacketCounts) -> tuple[list[CapturedConnection], int]:
    """Return the connections that carried data, and the time of the first packet in us.

    Raises:
        BadInput: as `tcp.packets`, or more is in it than `limits.EVENTS` (frames),
            `limits.CONNECTIONS` or `limits.STREAMS`.
    """
    memory, waiting = CaptureMemory(path, seen), PendingBytes()
    senders: list[Sender] = []
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
            senders.append(sender)
        sender.take(
            sender.reassembly.add(packet.time_us, packet.sequence, packet.data, packet.length)
        )
    for sender in current.values():
        sender.take(sender.reassembly.rest())
    return list(_connections(senders)), first_us or 0


def _connections(senders: Sequence[Sender]) -> Iterator[CapturedConnection]:
    """Pair the k-th of a direction with the k-th of its opposite."""
    waiting: dict[Flow, deque[Sender]] = {}
    for sender in senders:
        if opposite := waiting.get(sender.flow[::-1]):
            yield _connection(opposite.popleft(), sender)
        else:
            waiting.setdefault(sender.flow, deque()).append(sender)
    for left in waiting.values():
        for sender in left:
            silent = Sender(sender.flow[::-1], Reassembly(PendingBytes()), sender.memory)
            yield _connection(sender, silent)


def _connection(sender: Sender, other: Sender) -> CapturedConnection:
    for client, server in ((sender, other), (other, sender)):
        if client.framing.preface:
            return CapturedConnection((client, server), is_http2=True)
    shared = sender.asked_us.keys() & other.asked_us.keys()
    if not shared:
        return CapturedConnection((sender, other), is_http2=False)
    earliest = min(shared, key=lambda stream: min(sender.asked_us[stream], other.asked_us[stream]))
    first = sender.asked_us[earliest] <= other.asked_us[earliest]
    return CapturedConnection((sender, other) if first else (other, sender), is_http2=True)


# HTTP/2 frames of one connection of a traced job → which stream carried which tensor.
#
# The receiver of a tensor asks for it by gRPC, RecvTensor; the request names both devices and the
# edge of the partition graphs.


_TASK = rb"/job:(\w+)/replica:\d+/task:(\d{1,4})/[^;]*"
_KEY = re.compile(_TASK + rb";[0-9a-f]+;" + _TASK + rb";(edge_[^;]+);")
_OTHER = -1
"""The operation of an edge that the trace does not have."""
_DIRECTIONS = {(b"ps", b"worker"): "downlink", (b"worker", b"ps"): "uplink"}


@dataclass
class TracedStream:
    """What is known of one stream: who asked for which operation when, and its answer's data."""

    asked_us: int
    operation: int | None = None
    size_bytes: int = 0
    first_us: int = 0
    last_us: int = 0
    segments: int = 0

    def take(self, frame: "SentFrame", *, resumed: bool) -> None:
        if not self.segments:
            self.first_us = frame.first_us
        self.size_bytes += frame.length_bytes
        self.last_us = max(self.last_us, frame.last_us)
        self.segments += resumed


class SentFrame(NamedTuple):
    """A frame without its payload, who sent it, and the operation whose tensor it asks for."""

    sender: Endpoint
    type: str
    stream: int
    length_bytes: int
    first_us: int
    last_us: int
    value: int | None
    asks_for: int | None


@dataclass
class TracedConnection:
    """Frames of one connection in order of time."""

    frames: list[SentFrame] = field(default_factory=list)
    between: tuple[str, int, int] | None = None
    """Direction in which its tensors go, worker and server; None while no tensor was asked for."""
    sends_tensors: Endpoint | None = None

    def add(self, flow: Flow, frame: Frame, transfers: Mapping[str, int]) -> None:
        key = None if flow[0] == self.sends_tensors else _key(frame)
        asks_for = None if key is None else transfers.get(key[5].decode(errors="replace"), _OTHER)
        fields = frame.type, frame.stream, frame.length_bytes, frame.first_us, frame.last_us
        self.frames.append(SentFrame(flow[0], *fields, frame.value, asks_for))
        if self.between is None and key is not None:
            source, source_task, target, target_task, _ = key.groups()
            direction = _DIRECTIONS.get((source, target))
            if direction is not None:
                ends = int(source_task), int(target_task)
                server, worker = ends if direction == "downlink" else ends[::-1]
                self.between, self.sends_tensors = (direction, worker, server), flow[1]

    def streams(self) -> dict[int, TracedStream]:
        """Streams that carried data from the end that sends tensors, by number."""
        streams: dict[int, TracedStream] = {}
        served = 0
        for frame in sorted(self.frames, key=lambda arrived: arrived.first_us):
            if frame.type == "HEADERS" and frame.sender != self.sends_tensors:
                streams.setdefault(frame.stream, TracedStream(frame.first_us))
            stream = streams.get(frame.stream)
            if frame.type != "DATA" or stream is None:
                continue
            if frame.sender == self.sends_tensors:
                stream.take(frame, resumed=frame.stream != served)
                served = frame.stream
            elif frame.asks_for is not None:
                stream.operation = None if frame.asks_for == _OTHER else frame.asks_for
        return {number: stream for number, stream in streams.items() if stream.segments}


def _key(frame: Frame) -> re.Match[bytes] | None:
    return _KEY.search(frame.head) if frame.type == "DATA" else None
