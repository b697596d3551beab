"""Packet captures of others → table `external`: bytes, time and goodput of each TCP direction.

Packets are read one by one, so the size of the capture does not count.
"""

import ipaddress
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl

from profilers.readers.connections import CaptureAssembly, Sender
from profilers.readers.contract import ImportedRun, ReaderOptions
from profilers.readers.tcp import Endpoint, Flow, PacketCounts, packets
from warehouse.records import BadInput

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

    Raises:
        BadInput: no pcap file, links whose packets are not known, or no TCP with data in it.
    """
    seen = PacketCounts()
    assembly, first_us = CaptureAssembly(path, seen), None
    assembly.types = ()
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
    senders = [end for ends in connections for end in ends if end.size_bytes]
    missing = sum(sender.reassembly.missing_bytes for sender in senders)
    cut_off = "the file is cut off: read as far as it goes"
    lost = f"the capture missed {missing:,} bytes, so that figures are too small"
    yield ImportedRun(
        {"external": _external_table(senders)},
        {
            "packets": seen.packets,
            "cut_off": seen.cut_off,
            "connections": len(connections),
            "missing_bytes": missing,
        },
        started_at=datetime.fromtimestamp((first_us or 0) / 1e6, UTC),
        notes=tuple(note for note, holds in ((cut_off, seen.cut_off), (lost, missing)) if holds),
    )


def _external_table(senders: list[Sender]) -> pl.DataFrame:
    """Return bytes, seconds and bytes per second of each direction that carried any."""
    rows, repeats = [], Counter[Flow]()
    for row_number, sender in enumerate(senders, start=1):
        repeats[sender.flow] += 1
        source, target = (_text(end) for end in sender.flow)
        subject = json.dumps({"from": source, "to": target}, sort_keys=True, separators=(",", ":"))
        seconds = (sender.last_us - sender.first_us) / 1e6
        for metric, unit, value in (
            ("payload_bytes", "B", sender.size_bytes),
            ("missing_bytes", "B", sender.reassembly.missing_bytes),
            ("transfer_s", "s", seconds),
            ("goodput_Bps", "B/s", sender.size_bytes / seconds if seconds else None),
        ):
            rows.append((row_number, subject, metric, unit, value, repeats[sender.flow]))
    return pl.DataFrame(rows, schema=_EXTERNAL, orient="row")


def _text(end: Endpoint) -> str:
    address = ipaddress.ip_address(end[0])
    return f"[{address}]:{end[1]}" if address.version == 6 else f"{address}:{end[1]}"
