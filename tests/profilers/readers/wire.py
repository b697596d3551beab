"""Packets and HTTP/2 frames made by hand."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path

import dpkt

Endpoint = tuple[str, int]
HEADER_BYTES = 14 + 20 + 20


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return an HTTP/2 frame (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def data(stream: int, payload: bytes) -> bytes:
    return frame(0, stream, payload)


def headers(stream: int) -> bytes:
    return frame(1, stream, b"\xbe", flags=4)


def settings(window: int) -> bytes:
    return frame(4, 0, b"\x00\x03\x00\x00\x00\x00" + b"\x00\x04" + window.to_bytes(4))


def window_update(stream: int, increment: int) -> bytes:
    return frame(8, stream, increment.to_bytes(4))


def packet(
    source: Endpoint, target: Endpoint, sequence: int, payload: bytes, flags: int = dpkt.tcp.TH_ACK
) -> bytes:
    """Return an Ethernet packet with one TCP segment."""
    ends = {"sport": source[1], "dport": target[1]}
    tcp = dpkt.tcp.TCP(**ends, seq=sequence, flags=flags, data=payload)
    ip = dpkt.ip.IP(src=_address(source), dst=_address(target), p=6, len=40 + len(payload))
    ip.data = tcp
    return bytes(dpkt.ethernet.Ethernet(type=0x0800, data=ip))


def write(file: Path, packets: Iterable[tuple[int, bytes]], snap: int = 2**18) -> Path:
    """Write packets (time in us, bytes) to a pcap file, each cut off after `snap` bytes."""
    with file.open("wb") as stream:
        writer = dpkt.pcap.Writer(stream, snaplen=snap)
        for time_us, raw in packets:
            writer.writepkt_time(raw[:snap], time_us / 1e6)
    return file


class Sender:
    """One end of a connection: numbers what it sends."""

    def __init__(self, source: Endpoint, target: Endpoint, sequence: int = 2**32 - 100) -> None:
        self.source, self.target, self.sequence = source, target, sequence

    def send(self, time_us: int, *frames: bytes) -> tuple[int, bytes]:
        """Return a packet with these frames."""
        payload = b"".join(frames)
        sent = packet(self.source, self.target, self.sequence, payload)
        self.sequence = (self.sequence + len(payload)) % 2**32
        return time_us, sent


def pieces(whole: bytes, cuts: Sequence[int]) -> list[tuple[int, bytes]]:
    """Return (offset, bytes) between cuts, which count modulo the length."""
    places = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    return [(start, whole[start:end]) for start, end in pairwise(places)]


def _address(end: Endpoint) -> bytes:
    return bytes(int(part) for part in end[0].split("."))
