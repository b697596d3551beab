"""Packet captures of a traced job → tables `stream` and `http2_frame`.

The receiver of a tensor asks for it by gRPC, RecvTensor, on a stream of its own. The request names
both devices and the edge of the partition graphs: which stream is which operation is read there.
"""

import gzip
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, cast

import dpkt
import polars as pl

from profilers.readers.connections import CaptureMemory, TracedConnection
from profilers.readers.http2 import TYPES, Frame, FrameParser, PendingBytes, Reassembly
from profilers.readers.tcp import Endpoint, Flow, Packet, PacketCounts, packets

FRAMING_BYTES = 4096
"""What gRPC and protobuf add to a tensor at most: its shape, type, times; 20 to 42 bytes seen."""
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


@dataclass(frozen=True)
class Capture:
    """Frames `stream` and `http2_frame`.

    A connection carries tensors one way: `direction` says which, and `sender` (worker or server)
    who sent a frame on it. A stream without operation carried something else than a tensor of the
    trace. `segments` counts the stretches in which a stream's data went out without data of other
    streams in between: 1 means that it was never suspended. Times are microseconds of UTC.
    """

    stream: pl.DataFrame
    http2_frame: pl.DataFrame


def read(
    file: Path,
    *,
    control: Path,
    transfers: Mapping[str, int],
    sizes_bytes: Mapping[int, int],
    step_times_us: Sequence[tuple[int, int]],
    keep_in: Path | None = None,
) -> Capture:
    """Read the capture of a job's traced steps.

    A stream belongs to the step in which its tensor was asked for, and to the operation of that
    edge if its data is as long as the tensor and its framing.

    Args:
        file: pcap file of the traced steps.
        control: pcap file of what the same interface sent and got before: of it SETTINGS count.
        transfers: operation of each edge name, from the trace.
        sizes_bytes: bytes of each of these operations' tensors.
        step_times_us: start and end of each traced step.
        keep_in: folder for a copy of both, `<name>.gz`, with zeros in the place of tensors (but for
            the first `http2.HEAD_BYTES` of each frame).

    Raises:
        BadInput: as `tcp.packets`, or more is in it than `limits.EVENTS` (frames) or
            `limits.CONNECTIONS`.
    """
    begin_us = next((packet.time_us for packet in packets(file)), 0)
    before = takewhile(lambda packet: packet.time_us < begin_us, packets(control))
    seen = PacketCounts()
    assembly = _Assembly(transfers, CaptureMemory(file, seen))
    with _copy(control, keep_in) as copy:
        assembly.add(before, ["SETTINGS"], copy)
    with _copy(file, keep_in) as copy:
        assembly.add(packets(file, seen), TYPES, copy)
    connections = [
        connection for connection in assembly.connections.values() if connection.between is not None
    ]
    rows = []
    for connection in connections:
        assert connection.between is not None
        for number, flow in connection.streams().items():
            operation = flow.operation
            if operation is not None:
                extra = flow.size_bytes - sizes_bytes[operation]
                operation = operation if 0 <= extra <= FRAMING_BYTES else None
            step = _step_at(flow.asked_us, step_times_us)
            carried = operation, flow.size_bytes, flow.first_us, flow.last_us, flow.segments
            rows.append((step, *connection.between, number, *carried))
    stream = pl.DataFrame(rows, schema=STREAMS, orient="row").sort("first_us", "direction")
    return Capture(stream, _frame_table(connections))


def unmatched(timing: pl.DataFrame, operation: pl.DataFrame, stream: pl.DataFrame) -> pl.DataFrame:
    """Return step and operation of the timed transfers of which no stream was captured."""
    return _timed_transfers(timing, operation).join(
        stream.drop_nulls(["step", "operation"]), on=["step", "operation"], how="anti"
    )


def matched_fraction(timing: pl.DataFrame, operation: pl.DataFrame, stream: pl.DataFrame) -> float:
    """Return the share of the timed transfers of which a stream was captured."""
    timed = _timed_transfers(timing, operation).height
    return 1 - unmatched(timing, operation, stream).height / timed if timed else 0.0


def _timed_transfers(timing: pl.DataFrame, operation: pl.DataFrame) -> pl.DataFrame:
    transfers = operation.filter(pl.col("resource").is_in(["downlink", "uplink"]))
    timed = timing.select(pl.col("step", "operation").cast(pl.Int32)).unique()
    return timed.join(transfers.select("operation"), on="operation", how="semi")


class _Assembly:
    """Connections as they are put together from packets, which are copied on the way."""

    def __init__(self, transfers: Mapping[str, int], memory: CaptureMemory) -> None:
        self.connections: dict[frozenset[Endpoint], TracedConnection] = defaultdict(
            TracedConnection
        )
        self._flows: dict[Flow, tuple[Reassembly, FrameParser]] = {}
        self._transfers, self._memory, self._waiting = transfers, memory, PendingBytes()

    def add(self, captured: Iterable[Packet], types: Sequence[str], copy: IO[bytes]) -> None:
        """Take in packets that follow each other; keep frames of these types."""
        writer = dpkt.pcap.Writer(copy, snaplen=2**18)
        for packet in filter(lambda packet: packet.length, captured):
            if packet.flow not in self._flows:
                self._memory.connection()
                self._flows[packet.flow] = Reassembly(self._waiting), FrameParser()
            reassembly, framing = self._flows[packet.flow]
            kept, data = bytearray(packet.raw), packet.data
            for run in reassembly.add(packet.time_us, packet.sequence, data, packet.length):
                self._take(packet.flow, framing.feed(run), types)
                if run.data == data:
                    for start, end in framing.tensor_spans:
                        blank = slice(packet.offset + start, packet.offset + end)
                        kept[blank] = bytes(len(kept[blank]))
            writer.writepkt_time(bytes(kept), packet.time_us / 1e6)
        for flow, (reassembly, framing) in self._flows.items():
            for run in reassembly.rest():
                self._take(flow, framing.feed(run), types)

    def _take(self, flow: Flow, frames: Iterable[Frame], types: Sequence[str]) -> None:
        for frame in frames:
            if frame.type in types:
                self._memory.frames.event()
                self.connections[frozenset(flow)].add(flow, frame, self._transfers)


def _copy(file: Path, folder: Path | None) -> IO[bytes]:
    to = os.devnull if folder is None else folder / f"{file.name}.gz"
    return cast(IO[bytes], gzip.open(to, "wb", compresslevel=4))


def _step_at(time_us: int, step_times_us: Sequence[tuple[int, int]]) -> int | None:
    for step, (start_us, end_us) in enumerate(step_times_us):
        if start_us <= time_us <= end_us:
            return step
    return None


def _frame_table(connections: Sequence[TracedConnection]) -> pl.DataFrame:
    rows = []
    for connection in connections:
        assert connection.between is not None
        direction, worker, server = connection.between
        receiver = "worker" if direction == "downlink" else "server"
        tensor_sender = "server" if direction == "downlink" else "worker"
        for frame in connection.frames:
            sender = tensor_sender if frame.sender == connection.sends_tensors else receiver
            what = frame.type, frame.stream, frame.first_us, frame.length_bytes, frame.value
            rows.append((worker, server, direction, sender, *what))
    return pl.DataFrame(rows, schema=FRAMES, orient="row").sort("time_us", maintain_order=True)
