"""Packets of a capture → the bytes that each end of each TCP connection sent, in order."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import heappop, heappush
from pathlib import Path
from typing import IO, NamedTuple, cast

import dpkt

from warehouse.records import BadInput

PENDING_BYTES = 8 * 2**20
"""A hole before more than this much later data will not be filled: the capture lost a packet."""

_RECORD_BYTES = 2**20
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_TCP = bytes([dpkt.ip.IP_PROTO_TCP])
_IP_TYPES, _VLANS = (b"\x08\x00", b"\x86\xdd"), (b"\x81\x00", b"\x88\xa8")
# Where the type of what a frame carries stands, if anywhere, and where that begins.
_LINKS: dict[int, tuple[str, int | None, int]] = {
    1: ("Ethernet", 12, 14),
    101: ("raw IP", None, 0),
    113: ("Linux cooked", 14, 16),
    276: ("Linux cooked v2", 0, 20),
    0: ("loopback", None, 4),
}

Endpoint = tuple[bytes, int]
Flow = tuple[Endpoint, Endpoint]
"""Sender and receiver of one direction of a connection."""


class Packet(NamedTuple):
    """One captured packet; TCP `data` begins at `offset` in it and may be cut off by the capture.

    `length` counts the bytes that TCP sent, captured or not; 0: an acknowledgement, or a connection
    `opens` or ends. Before `sequence` everything else was sent.
    """

    time_us: int
    raw: bytes
    flow: Flow
    sequence: int
    offset: int
    length: int
    opens: bool

    @property
    def data(self) -> bytes:
        """The captured part of what TCP sent."""
        return self.raw[self.offset : self.offset + self.length]


@dataclass
class Seen:
    """What was in a file: packets of any kind, and whether it ends within one."""

    packets: int = 0
    cut_off: bool = False


class Run(NamedTuple):
    """Bytes that follow on those before; `after_hole` where the capture begins or lost some."""

    time_us: int
    data: bytes
    length: int
    after_hole: bool


def packets(file: Path, seen: Seen | None = None) -> Iterator[Packet]:
    """Yield the TCP packets of a pcap file, gzipped or not, up to where it is cut off.

    `seen` counts what else was there.

    Raises:
        BadInput: it is no pcap file, or of links whose packets are not known.
    """
    seen = seen or Seen()
    with _opened(file) as stream:
        try:
            reader = dpkt.pcap.Reader(_Whole(stream, file, seen))
        except (ValueError, dpkt.UnpackError) as error:
            raise BadInput(f"{file}: not a packet capture ({error}); capture again") from None
        link = reader.datalink()
        if link not in _LINKS:
            known = ", ".join(f"{name} ({number})" for number, (name, *_) in _LINKS.items())
            raise BadInput(f"{file}: link type {link}; expected {known}")
        _, type_at, ip_at = _LINKS[link]
        try:
            for seconds, raw in reader:
                seen.packets += 1
                packet = _packet(round(seconds * 1_000_000), raw, type_at, ip_at)
                if packet is not None:
                    yield packet
        except (dpkt.NeedData, EOFError, zlib.error):
            seen.cut_off = True


@contextmanager
def _opened(file: Path) -> Iterator[IO[bytes]]:
    if not file.is_file():
        raise BadInput(f"{file} is {'a folder' if file.is_dir() else 'not there'}; expected a pcap")
    with file.open("rb") as start:
        magic = start.read(4)
    if magic == _PCAPNG:
        raise BadInput(
            f"{file} is pcapng; expected pcap: tcpdump -r {file.name} -w capture.pcap converts it"
        )
    packed = magic[:2] == b"\x1f\x8b"
    with cast(IO[bytes], gzip.open(file)) if packed else file.open("rb") as stream:
        yield stream


class _Whole:
    """Reads for dpkt: records whole or, at the end of a file that was cut off, not at all."""

    def __init__(self, stream: IO[bytes], file: Path, seen: Seen) -> None:
        self._stream, self._file, self._seen = stream, file, seen

    def read(self, size: int) -> bytes:
        if size > _RECORD_BYTES:
            raise BadInput(
                f"{self._file}: packet {self._seen.packets + 1} claims {size:,} bytes, more than "
                f"{_RECORD_BYTES:,}: the file is damaged; capture or copy it again"
            )
        data = self._stream.read(size)
        self._seen.cut_off |= 0 < len(data) < size
        return data


def _packet(time_us: int, raw: bytes, type_at: int | None, ip_at: int) -> Packet | None:
    """Read headers by hand: dpkt would copy the whole packet at every layer."""
    if type_at is not None:
        while raw[type_at : type_at + 2] in _VLANS:
            type_at, ip_at = type_at + 4, ip_at + 4
        if raw[type_at : type_at + 2] not in _IP_TYPES:
            return None
    version = raw[ip_at] >> 4 if len(raw) > ip_at else 0
    if version == 4:
        first, size, tcp = ip_at + 12, 4, ip_at + (raw[ip_at] & 15) * 4
        end = ip_at + int.from_bytes(raw[ip_at + 2 : ip_at + 4])
        # A fragment that is not the first begins with no TCP header.
        is_tcp = raw[ip_at + 9 : ip_at + 10] == _TCP and not raw[ip_at + 6] & 31 | raw[ip_at + 7]
    elif version == 6:
        first, size, tcp = ip_at + 8, 16, ip_at + 40
        end = tcp + int.from_bytes(raw[ip_at + 4 : ip_at + 6])
        is_tcp = raw[ip_at + 6 : ip_at + 7] == _TCP
    else:
        return None
    if len(raw) < tcp + 20 or not is_tcp:
        return None
    # Where the device is to cut a segment, the kernel may not have written its length yet.
    end = len(raw) if end in (ip_at, ip_at + 40) else end
    offset = tcp + (raw[tcp + 12] >> 4) * 4
    length, opens = max(end - offset, 0), bool(raw[tcp + 13] & dpkt.tcp.TH_SYN)
    source = raw[first : first + size], int.from_bytes(raw[tcp : tcp + 2])
    target = raw[first + size : first + 2 * size], int.from_bytes(raw[tcp + 2 : tcp + 4])
    sequence = int.from_bytes(raw[tcp + 4 : tcp + 8])
    return Packet(time_us, raw, (source, target), sequence, offset, length, opens)


class Reassembly:
    """Puts the segments of one flow in order and leaves out what was sent twice.

    The first segment sets where the flow begins.
    """

    def __init__(self) -> None:
        self._next: int | None = None
        self._hole = False
        self._pending: list[tuple[int, int, bytes, int]] = []
        self._pending_bytes = 0
        self.missing_bytes = 0
        """Bytes in holes that were never filled, as far as later packets tell."""
        self._sent: int | None = None

    def add(self, time_us: int, sequence: int, data: bytes, length: int) -> Iterator[Run]:
        """Yield what is in order now that this segment has come."""
        if self._next is None:
            self._next, self._hole = sequence, True
        heappush(self._pending, (self._next + self._ahead(sequence), time_us, data, length))
        self._pending_bytes += length
        yield from self._in_order(skip=self._pending_bytes > PENDING_BYTES)

    def sent(self, sequence: int) -> None:
        """Take note that all bytes before this one were sent."""
        self._sent = sequence

    def rest(self) -> Iterator[Run]:
        """Yield what still waits for a hole to be filled, and forget where the flow was."""
        while self._pending:
            yield from self._in_order(skip=True)
        if self._next is not None and self._sent is not None:
            # The end of a connection takes a number too, which is no byte.
            self.missing_bytes += max(self._ahead(self._sent) - 1, 0)
        self._next = self._sent = None

    def _ahead(self, sequence: int) -> int:
        """Return the distance from the next byte, modulo 2³²: sequence numbers may wrap."""
        assert self._next is not None
        return (sequence - self._next + 2**31) % 2**32 - 2**31

    def _in_order(self, *, skip: bool) -> Iterator[Run]:
        assert self._next is not None
        while self._pending and (skip or self._pending[0][0] <= self._next):
            position, time_us, data, length = heappop(self._pending)
            self._pending_bytes -= length
            skip = False
            if position > self._next:
                self._hole = True
                self.missing_bytes += position - self._next
            known = max(self._next - position, 0)
            if known < length:
                self._next = position + length
                hole, self._hole = self._hole, False
                yield Run(time_us, data[known:], length - known, hole)
