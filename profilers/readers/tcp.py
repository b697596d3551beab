"""Packets of a capture → the bytes that each end of each TCP connection sent, in order."""

import gzip
from collections.abc import Iterator
from heapq import heappop, heappush
from pathlib import Path
from typing import NamedTuple

import dpkt

from warehouse.records import BadInput

PENDING_BYTES = 8 * 2**20
"""A hole before more than this much later data will not be filled: the capture lost a packet."""

Endpoint = tuple[bytes, int]
Flow = tuple[Endpoint, Endpoint]
"""Sender and receiver of one direction of a connection."""


class Packet(NamedTuple):
    """One captured packet; TCP `data` begins at `offset` in it and may be cut off by the capture.

    `length` counts the bytes that TCP sent, captured or not.
    """

    time_us: int
    raw: bytes
    flow: Flow
    sequence: int
    offset: int
    length: int

    @property
    def data(self) -> bytes:
        """The captured part of what TCP sent."""
        return self.raw[self.offset : self.offset + self.length]


class Run(NamedTuple):
    """Bytes that follow on those before; `after_hole` where the capture begins or lost some."""

    time_us: int
    data: bytes
    length: int
    after_hole: bool


def packets(file: Path) -> Iterator[Packet]:
    """Yield the TCP packets with data of a pcap file, gzipped or not, up to where it is cut off.

    Raises:
        BadInput: it is no pcap file of Ethernet packets.
    """
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as stream:
        try:
            reader = dpkt.pcap.Reader(stream)
        except (ValueError, dpkt.UnpackError) as error:
            raise BadInput(f"{file}: not a packet capture ({error}); capture again") from None
        if reader.datalink() != dpkt.pcap.DLT_EN10MB:
            raise BadInput(f"{file}: link type {reader.datalink()}; expected Ethernet (1)")
        try:
            for seconds, raw in reader:
                packet = _packet(round(seconds * 1_000_000), raw)
                if packet is not None:
                    yield packet
        except dpkt.NeedData:
            return


def _packet(time_us: int, raw: bytes) -> Packet | None:
    """Read headers by hand: dpkt would copy the whole packet at every layer."""
    if raw[12:14] != b"\x08\x00" or len(raw) < 54 or raw[23] != dpkt.ip.IP_PROTO_TCP:
        return None
    tcp = 14 + (raw[14] & 15) * 4
    offset = tcp + (raw[tcp + 12] >> 4) * 4
    length = 14 + int.from_bytes(raw[16:18]) - offset
    if length <= 0:
        return None
    source = raw[26:30], int.from_bytes(raw[tcp : tcp + 2])
    target = raw[30:34], int.from_bytes(raw[tcp + 2 : tcp + 4])
    return Packet(
        time_us, raw, (source, target), int.from_bytes(raw[tcp + 4 : tcp + 8]), offset, length
    )


class Reassembly:
    """Puts the segments of one flow in order and leaves out what was sent twice.

    The first segment sets where the flow begins.
    """

    def __init__(self) -> None:
        self._next: int | None = None
        self._hole = False
        self._pending: list[tuple[int, int, bytes, int]] = []
        self._pending_bytes = 0

    def add(self, time_us: int, sequence: int, data: bytes, length: int) -> Iterator[Run]:
        """Yield what is in order now that this segment has come."""
        if self._next is None:
            self._next, self._hole = sequence, True
        # Distance modulo 2³², so that sequence numbers may wrap.
        ahead = (sequence - self._next + 2**31) % 2**32 - 2**31
        heappush(self._pending, (self._next + ahead, time_us, data, length))
        self._pending_bytes += length
        yield from self._in_order(skip=self._pending_bytes > PENDING_BYTES)

    def rest(self) -> Iterator[Run]:
        """Yield what still waits for a hole to be filled, and forget where the flow was."""
        while self._pending:
            yield from self._in_order(skip=True)
        self._next = None

    def _in_order(self, *, skip: bool) -> Iterator[Run]:
        assert self._next is not None
        while self._pending and (skip or self._pending[0][0] <= self._next):
            position, time_us, data, length = heappop(self._pending)
            self._pending_bytes -= length
            skip = False
            self._hole |= position > self._next
            known = max(self._next - position, 0)
            if known < length:
                self._next = position + length
                hole, self._hole = self._hole, False
                yield Run(time_us, data[known:], length - known, hole)
