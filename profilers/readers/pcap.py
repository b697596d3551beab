"""Packet captures of others → tables `stream` and `http2_frame`, and `external` for other TCP.

Nothing but the packets is known of the job: who asked is the worker, who answered the server, and
streams name no operation. Packets are read one by one, so the size of the capture does not count.
"""

import ipaddress
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from profilers.readers.connections import (
    STREAMS,
    CaptureAssembly,
    CapturedConnection,
    Sender,
    frame_table,
)
from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.tcp import Endpoint, Flow, PacketCounts, packets
from warehouse.records import BadInput

_UPLINK, _DOWNLINK = "uplink", "downlink"
_LAST_END = 2**15 - 1
_EXTERNAL = {
    "row_number": pl.Int64,
    "subject": pl.String,
    "metric": pl.String,
    "unit": pl.String,
    "value": pl.Float64,
    "repeat": pl.Int32,
}


def read(path: Path, options: ReaderOptions) -> Iterator[ImportedRun]:
    """Yield one run with what the capture holds, as far as it goes.

    A connection is HTTP/2 if its preface was captured, or HEADERS of both ends on one stream.

    Raises:
        BadInput: no pcap file, links whose packets are not known, or no TCP with data in it.
    """
    seen = PacketCounts()
    assembly, first_us = CaptureAssembly(path, seen), None
    for packet in packets(path, seen):
        first_us = packet.time_us if first_us is None else first_us
        assembly.add(packet)
    assembly.finish()
    connections = list(assembly.connections())
    if not connections:
        raise BadInput(
            f"{path}: no data over TCP in {seen.packets:,} packets"
            f"{' of a file that is cut off' if seen.cut_off else ''}; capture again with filter tcp"
        )
    http2 = [connection for connection in connections if connection.is_http2]
    others = [connection for connection in connections if not connection.is_http2]
    missing = sum(
        end.reassembly.missing_bytes for connection in connections for end in connection.ends
    )
    tables: dict[str, pl.DataFrame] = {}
    if http2:
        _check_ends(path, http2)
        tables |= {"stream": _stream_table(http2), "http2_frame": frame_table(_frame_ends(http2))}
    if others:
        tables["external"] = _external_table(others)
    yield ImportedRun(
        tables,
        {
            "packets": seen.packets,
            "cut_off": seen.cut_off,
            "connections": len(connections),
            "http2_connections": len(http2),
            "missing_bytes": missing,
        },
        started_at=datetime.fromtimestamp((first_us or 0) / 1e6, UTC),
        notes=_notes(seen, missing),
    )


def _notes(seen: PacketCounts, missing: int) -> tuple[str, ...]:
    cut_off = "the file is cut off: read as far as it goes"
    lost = f"the capture missed {missing:,} bytes, so that figures are too small"
    return tuple(note for note, holds in ((cut_off, seen.cut_off), (lost, missing)) if holds)


def _stream_table(connections: Sequence[CapturedConnection]) -> pl.DataFrame:
    rows = [
        (None, direction, *ends, number, None, *stream.figures)
        for connection, ends in _numbered(connections)
        for sender, direction in zip(connection.ends, (_UPLINK, _DOWNLINK), strict=True)
        for number, stream in sender.streams.items()
    ]
    return pl.DataFrame(rows, schema=STREAMS, orient="row").sort("first_us", "direction")


def _frame_ends(
    connections: Sequence[CapturedConnection],
) -> Iterator[tuple[Sender, int, int, str, str]]:
    """Yield senders with worker, server, the direction of most data, and their names."""
    for connection, ends in _numbered(connections):
        up, down = (
            sum(stream.size_bytes for stream in sender.streams.values())
            for sender in connection.ends
        )
        direction = _UPLINK if up > down else _DOWNLINK
        for sender, name in zip(connection.ends, ("worker", "server"), strict=True):
            yield (sender, *ends, direction, name)


def _numbered(
    connections: Sequence[CapturedConnection],
) -> Iterator[tuple[CapturedConnection, tuple[int, int]]]:
    """Yield each connection with the index of its client's address and of its server's end."""
    workers: dict[bytes, int] = {}
    servers: dict[Endpoint, int] = {}
    for connection in connections:
        (address, _), server = connection.ends[0].flow
        indices = (
            workers.setdefault(address, len(workers)),
            servers.setdefault(server, len(servers)),
        )
        yield connection, indices


def _check_ends(path: Path, connections: Sequence[CapturedConnection]) -> None:
    """Refuse more clients or servers than the tables can number."""
    most = max(max(ends) for _, ends in _numbered(connections))
    if most > _LAST_END:
        raise BadInput(
            f"{path}: {most + 1:,} clients or servers of HTTP/2, more than {_LAST_END + 1:,}; "
            "import parts of the file"
        )


def _external_table(connections: Sequence[CapturedConnection]) -> pl.DataFrame:
    """Return bytes, seconds and bytes per second of each direction that carried any."""
    rows = []
    repeats: dict[Flow, int] = {}
    directions = [end for connection in connections for end in connection.ends if end.size_bytes]
    for row_number, sender in enumerate(directions, start=1):
        repeats[sender.flow] = repeat = repeats.get(sender.flow, 0) + 1
        source, target = (_text(end) for end in sender.flow)
        subject = json.dumps({"from": source, "to": target}, sort_keys=True, separators=(",", ":"))
        seconds = (sender.last_us - sender.first_us) / 1e6
        for metric, unit, value in (
            ("payload_bytes", "B", sender.size_bytes),
            ("missing_bytes", "B", sender.reassembly.missing_bytes),
            ("transfer_s", "s", seconds),
            ("goodput_Bps", "B/s", sender.size_bytes / seconds if seconds else None),
        ):
            rows.append((row_number, subject, metric, unit, value, repeat))
    return pl.DataFrame(rows, schema=_EXTERNAL, orient="row")


def _text(end: Endpoint) -> str:
    address = ipaddress.ip_address(end[0])
    return f"[{address}]:{end[1]}" if address.version == 6 else f"{address}:{end[1]}"
