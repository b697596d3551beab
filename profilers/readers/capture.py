"""Packet captures of a traced job → tables `stream` and `http2_frame`.

The receiver of a tensor asks for it by gRPC, RecvTensor, on a stream of its own. The request names
both devices and the edge of the partition graphs: which stream is which operation is read there.
"""

import gzip
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import IO, cast

import dpkt
import polars as pl

from profilers.readers.connections import STREAMS, CaptureAssembly, Sender, frame_table
from profilers.readers.http2 import TYPES
from profilers.readers.tcp import Packet, PacketCounts, packets

FRAMING_BYTES = 4096
"""What gRPC and protobuf add to a tensor at most: its shape, type, times; 20 to 42 bytes seen."""


@dataclass(frozen=True)
class Capture:
    """Frames `stream` and `http2_frame`.

    A connection carries tensors one way: `direction` says which, and `sender` (worker or server)
    who sent a frame on it. A stream without operation carried something else than a tensor of the
    trace. Times are microseconds of UTC.
    """

    stream: pl.DataFrame
    http2_frame: pl.DataFrame


@dataclass(frozen=True)
class _TensorConnection:
    """A connection of a traced job: who asks for tensors, who sends them, and between whom."""

    asker: Sender
    sender: Sender
    direction: str
    worker: int
    server: int


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
    connections = list(_tensor_connections(assembly))
    rows = []
    for connection in connections:
        for number, stream in connection.sender.streams.items():
            asked_us = connection.asker.asked_us.get(number)
            if asked_us is None:
                continue
            operation = connection.asker.asked_for.get(number)
            if operation is not None:
                extra = stream.size_bytes - sizes_bytes[operation]
                operation = operation if 0 <= extra <= FRAMING_BYTES else None
            ends = connection.direction, connection.worker, connection.server
            step = _step_at(asked_us, step_times_us)
            times_us = stream.first_us, stream.last_us
            sent = stream.size_bytes, *times_us, stream.segments
            rows.append((step, *ends, number, operation, *sent))
    return Capture(
        pl.DataFrame(rows, schema=STREAMS, orient="row").sort("first_us", "direction"),
        _frame_table(connections),
    )


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


def _tensor_connections(assembly: CaptureAssembly) -> Iterable[_TensorConnection]:
    for connection in assembly.connections():
        for asker, sender in (connection, connection[::-1]):
            match asker.devices:
                case ("ps", server, "worker", worker):
                    yield _TensorConnection(asker, sender, "downlink", worker, server)
                case ("worker", worker, "ps", server):
                    yield _TensorConnection(asker, sender, "uplink", worker, server)


def _step_at(time_us: int, step_times_us: Sequence[tuple[int, int]]) -> int | None:
    for step, (start_us, end_us) in enumerate(step_times_us):
        if start_us <= time_us <= end_us:
            return step
    return None


def _frame_table(connections: Sequence[_TensorConnection]) -> pl.DataFrame:
    ends = []
    for of in connections:
        names = ("worker", "server") if of.direction == "downlink" else ("server", "worker")
        for sender, name in zip((of.asker, of.sender), names, strict=True):
            ends.append((sender, of.worker, of.server, of.direction, name))
    return frame_table(ends)
