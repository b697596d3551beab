"""Packets of a capture → TCP connections, their HTTP/2 streams and frames.

Payload is let go as it passes. In memory are a row of numbers per HTTP/2 frame, stream and
connection, and segments while bytes before them are missing (`Reassembly`).
"""

import re
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import polars as pl

from profilers.readers.contract import MemoryCounter
from profilers.readers.http2 import TYPES, ByteRun, Frame, FrameParser, PendingBytes, Reassembly
from profilers.readers.tcp import Flow, Packet, PacketCounts
from warehouse import limits
from warehouse.records import BadInput

STREAMS = {
    "step": pl.Int32,
    "direction": pl.String,
    "worker": pl.Int16,
    "server": pl.Int16,
    "stream": pl.Int32,
    "operation": pl.Int32,
    "size_bytes": pl.Int64,
    "first_us": pl.Int64,
    "last_us": pl.Int64,
    "segments": pl.Int32,
}
FRAMES = {
    "worker": pl.Int16,
    "server": pl.Int16,
    "direction": pl.String,
    "sender": pl.String,
    "type": pl.String,
    "stream": pl.Int32,
    "time_us": pl.Int64,
    "length_bytes": pl.Int32,
    "value": pl.Int64,
}
_NUMBERS = ("stream", "time_us", "length_bytes", "value")
_TASK = rb"/job:(\w+)/replica:\d+/task:(\d{1,4})/[^;]*"
_KEY = re.compile(_TASK + rb";[0-9a-f]+;" + _TASK + rb";(edge_[^;]+);")
"""What RecvTensor, a call of gRPC, asks for: who sends, who receives, and the graph's edge."""


@dataclass(slots=True)
class Stream:
    """What one end sent on one HTTP/2 stream.

    `segments` counts the stretches in which its data went out without data of other streams in
    between: 1 means that it was never suspended.
    """

    first_us: int
    size_bytes: int = 0
    last_us: int = 0
    segments: int = 0


@dataclass(slots=True)
class Sender:
    """One direction of a connection: what was sent, and its HTTP/2 frames as columns."""

    flow: Flow
    capture: "CaptureAssembly"
    reassembly: Reassembly
    framing: FrameParser = field(default_factory=FrameParser)
    size_bytes: int = 0
    first_us: int = 0
    last_us: int = 0
    served: int = 0
    asked_us: dict[int, int] = field(default_factory=dict)
    """When the first HEADERS of each stream began."""
    asked_for: dict[int, int | None] = field(default_factory=dict)
    """Which operation's tensor each stream asks for; None: one that the trace does not have."""
    devices: tuple[str, int, str, int] | None = None
    """Job and task that tensors come from, and those that they go to; None: none was asked for."""
    streams: dict[int, Stream] = field(default_factory=dict)
    kinds: "array[int]" = field(default_factory=lambda: array("b"))
    numbers: "array[int]" = field(default_factory=lambda: array("q"))
    """Stream, time in us, length in bytes and value (-1: none) of each frame."""

    def take(self, run: ByteRun) -> None:
        """Take in bytes that follow on those before."""
        self.first_us = min(self.first_us, run.time_us) if self.size_bytes else run.time_us
        self.last_us = max(self.last_us, run.time_us)
        self.size_bytes += run.length
        for frame in self.framing.feed(run):
            if frame.type in self.capture.types:
                self._keep(frame)

    def finish(self) -> None:
        """Take in what waits for bytes that do not come any more."""
        for run in self.reassembly.rest():
            self.take(run)

    def _keep(self, frame: Frame) -> None:
        self.capture.frames.event()
        value = -1 if (frame_value := frame.value) is None else frame_value
        self.kinds.append(TYPES.index(frame.type))
        self.numbers.extend((frame.stream, frame.first_us, frame.length_bytes, value))
        if frame.type == "HEADERS":
            self.asked_us.setdefault(frame.stream, frame.first_us)
        elif frame.type == "DATA":
            stream = self.streams.get(frame.stream)
            if stream is None:
                stream = self.streams[frame.stream] = Stream(frame.first_us)
            stream.size_bytes += frame.length_bytes
            stream.last_us = max(stream.last_us, frame.last_us)
            stream.segments += frame.stream != self.served
            self.served = frame.stream
            if self.capture.transfers is not None and (key := _KEY.search(frame.head)):
                edge = key[5].decode(errors="replace")
                self.asked_for[frame.stream] = self.capture.transfers.get(edge)
                self.devices = key[1].decode(), int(key[2]), key[3].decode(), int(key[4])


class CaptureAssembly:
    """The connections of a capture, as they are put together from packets that follow each other.

    Attributes:
        types: the frames that are kept.
        transfers: of a traced job: the operation of each edge of its graph.
        frames: counts the frames.
    """

    def __init__(
        self, path: Path, seen: PacketCounts, transfers: Mapping[str, int] | None = None
    ) -> None:
        self.types: Collection[str] = TYPES
        self.transfers, self.frames = transfers, MemoryCounter(path)
        self._path, self._seen = path, seen
        self._senders: list[Sender] = []
        self._current: dict[Flow, Sender] = {}
        self._waiting = PendingBytes()

    def add(self, packet: Packet) -> Sequence[tuple[int, int]]:
        """Take in a packet; return the spans of its data that hold nothing but tensors.

        Raises:
            BadInput: more is in the capture than `limits.EVENTS` (frames) or `limits.CONNECTIONS`
                (directions).
        """
        if packet.opens:
            # The ports may be those of a connection before; what came of it comes no more.
            if (old := self._current.pop(packet.flow, None)) is not None:
                old.finish()
        elif not packet.length and packet.flow in self._current:
            self._current[packet.flow].reassembly.sent(packet.sequence)
        if not packet.length:
            return ()
        sender = self._current.get(packet.flow)
        if sender is None:
            if len(self._senders) >= limits.CONNECTIONS:
                raise BadInput(
                    f"{self._path}: packet {self._seen.packets:,} begins one more than "
                    f"{limits.CONNECTIONS:,} directions of connections; import parts of the file"
                )
            sender = Sender(packet.flow, self, Reassembly(self._waiting))
            self._current[packet.flow] = sender
            self._senders.append(sender)
        spans: Sequence[tuple[int, int]] = ()
        data = packet.data
        for run in sender.reassembly.add(packet.time_us, packet.sequence, data, packet.length):
            sender.take(run)
            if run.data is data or run.data == data:
                spans = sender.framing.tensor_spans
        return spans

    def finish(self) -> None:
        """Take in what still waits; packets of another file may follow."""
        for sender in self._current.values():
            sender.finish()

    def connections(self) -> Iterator[tuple[Sender, Sender]]:
        """Yield connections: the k-th of a direction with the k-th of its opposite."""
        waiting: dict[Flow, deque[Sender]] = {}
        for sender in self._senders:
            if opposite := waiting.get(sender.flow[::-1]):
                yield opposite.popleft(), sender
            else:
                waiting.setdefault(sender.flow, deque()).append(sender)
        for left in waiting.values():
            for sender in left:
                yield sender, Sender(sender.flow[::-1], self, Reassembly(PendingBytes()))


def frame_table(of_ends: Iterable[tuple[Sender, int, int, str, str]]) -> pl.DataFrame:
    """Return `FRAMES` by time, of senders with their worker, server, direction and name."""
    listed = list(of_ends)
    senders = [sender for sender, *_ in listed]
    ends = pl.DataFrame(
        [tuple(end) for _, *end in listed],
        schema={name: FRAMES[name] for name in ("worker", "server", "direction", "sender")},
        orient="row",
    )
    numbers = [np.array(sender.numbers, dtype=np.int64) for sender in senders]
    kinds = np.concatenate(
        [np.empty(0, np.uint32), *(np.array(s.kinds, np.uint32) for s in senders)]
    )
    whose = np.repeat(np.arange(len(senders)), [len(sender.kinds) for sender in senders])
    joined = np.concatenate([np.empty(0, np.int64), *numbers]).reshape(-1, len(_NUMBERS))
    frames = pl.from_numpy(joined, list(_NUMBERS)).with_columns(
        ends[whose].get_columns(),
        type=pl.Series(list(TYPES)).gather(pl.Series(kinds)),
        value=pl.col("value").replace(-1, None),
    )
    columns = [pl.col(column).cast(kind) for column, kind in FRAMES.items()]
    return frames.select(columns).sort("time_us", maintain_order=True)
