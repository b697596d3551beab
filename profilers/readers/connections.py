"""Packets of a capture → connections, HTTP/2 streams and frames: tables `stream`, `http2_frame`.

Payload is let go as it passes. In memory are a row of numbers per HTTP/2 frame, stream and
connection, and segments while bytes before them are missing (`Reassembly`).

In a job of TensorFlow, the receiver of a tensor asks for it by gRPC, RecvTensor, on a stream of its
own. The request names both devices and the edge of the partition graphs: which stream is which
operation is read there. A connection carries tensors one way: `direction` says which, and `sender`
(worker or server) who sent a frame on it.
"""

import gzip
import os
import re
from array import array
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import IO, cast

import numpy as np
import polars as pl

from profilers.readers.contract import MemoryCounter
from profilers.readers.http2 import TYPES, ByteRun, Frame, FrameParser, PendingBytes, Reassembly
from profilers.readers.tcp import Flow, Packet, PacketCounts, packets
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
FRAMING_BYTES = 4096
"""What gRPC and protobuf add to a tensor at most: its shape, type, times; 20 to 42 bytes seen."""
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


_TensorConnection = tuple[Sender, Sender, str, int, int]
"""A connection of a traced job: who asks for tensors, who sends them, direction, worker, server."""


def read(
    file: Path,
    *,
    control: Path,
    transfers: Mapping[str, int],
    sizes_bytes: Mapping[int, int],
    step_times_us: Sequence[tuple[int, int]],
    keep_in: Path | None = None,
) -> dict[str, pl.DataFrame]:
    """Return tables `stream` and `http2_frame` of the capture of a job's traced steps.

    A stream belongs to the step in which its tensor was asked for, and to the operation of that
    edge if its data is as long as the tensor and its framing; one without operation carried
    something else than a tensor of the trace. Times are microseconds of UTC.

    Args:
        file: pcap file of the traced steps.
        control: pcap file of what the same interface sent and got before: of it SETTINGS count.
        transfers: operation of each edge name, from the trace.
        sizes_bytes: bytes of each of these operations' tensors.
        step_times_us: start and end of each traced step.
        keep_in: folder for a copy of both, `<name>.gz`, with zeros in the place of tensors (but for
            the first `http2.HEAD_BYTES` of each frame).

    Raises:
        BadInput: as `tcp.packets`, or as `CaptureAssembly.add`.
    """
    begin_us = next((packet.time_us for packet in packets(file)), 0)
    before = takewhile(lambda packet: packet.time_us < begin_us, packets(control))
    seen = PacketCounts()
    assembly = CaptureAssembly(file, seen, transfers)
    with _copy(control, keep_in) as copy:
        _assemble(assembly, before, ["SETTINGS"], copy)
    with _copy(file, keep_in) as copy:
        _assemble(assembly, packets(file, seen), TYPES, copy)
    connections = list[_TensorConnection]()
    for ends in assembly.connections():
        for asker, sender in (ends, ends[::-1]):
            match asker.devices:
                case ("ps", server, "worker", worker):
                    connections.append((asker, sender, "downlink", worker, server))
                case ("worker", worker, "ps", server):
                    connections.append((asker, sender, "uplink", worker, server))
    rows = []
    for asker, sender, *between in connections:
        for number, stream in sender.streams.items():
            asked_us = asker.asked_us.get(number)
            if asked_us is None:
                continue
            operation = asker.asked_for.get(number)
            if operation is not None:
                extra = stream.size_bytes - sizes_bytes[operation]
                operation = operation if 0 <= extra <= FRAMING_BYTES else None
            spans = enumerate(step_times_us)
            step = next((step for step, (start, end) in spans if start <= asked_us <= end), None)
            sent = stream.size_bytes, stream.first_us, stream.last_us, stream.segments
            rows.append((step, *between, number, operation, *sent))
    streams = pl.DataFrame(rows, schema=STREAMS, orient="row").sort("first_us", "direction")
    return {"stream": streams, "http2_frame": _frame_table(connections)}


def matched_fraction(timing: pl.DataFrame, operation: pl.DataFrame, stream: pl.DataFrame) -> float:
    """Return the share of the timed transfers of which a stream was captured."""
    transfers = operation.filter(pl.col("resource").is_in(["downlink", "uplink"]))
    timed = timing.select(pl.col("step", "operation").cast(pl.Int32)).unique()
    timed = timed.join(transfers.select("operation"), on="operation", how="semi")
    matched = timed.join(stream, on=["step", "operation"], how="semi")
    return matched.height / timed.height if timed.height else 0.0


def _assemble(
    assembly: CaptureAssembly, captured: Iterable[Packet], types: Collection[str], copy: IO[bytes]
) -> None:
    """Take in the packets of a file, keep frames of these types, copy packets without tensors."""
    import dpkt

    writer = dpkt.pcap.Writer(copy, snaplen=2**18)
    assembly.types = types
    for packet in captured:
        if not packet.length:
            continue
        kept = bytearray(packet.raw)
        for start, end in assembly.add(packet):
            blank = slice(packet.offset + start, packet.offset + end)
            kept[blank] = bytes(len(kept[blank]))
        writer.writepkt_time(bytes(kept), packet.time_us / 1e6)
    assembly.finish()


def _copy(file: Path, folder: Path | None) -> IO[bytes]:
    to = os.devnull if folder is None else folder / f"{file.name}.gz"
    return cast(IO[bytes], gzip.open(to, "wb", compresslevel=4))


def _frame_table(connections: Sequence[_TensorConnection]) -> pl.DataFrame:
    """Return `FRAMES` by time."""
    senders, rows = list[Sender](), list[tuple[int, int, str, str]]()
    for asker, sender, direction, worker, server in connections:
        names = ("worker", "server") if direction == "downlink" else ("server", "worker")
        senders += (asker, sender)
        rows += [(worker, server, direction, name) for name in names]
    ends = pl.DataFrame(
        rows,
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
