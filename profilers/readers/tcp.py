"""Packet captures → TCP segments."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from profilers.readers.contract import open_unpacked
from warehouse.records import BadInput

_RECORD_BYTES = 2**20
_END_US = 2**32 * 1_000_000
"""Seconds of a pcap file have 32 bits."""
_PCAPNG = b"\x0a\x0d\x0d\x0a"
_TCP, _SYN = b"\x06", 2
"""A protocol of IP, and its flag that opens a connection."""
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
class PacketCounts:
    """What was in a file: packets of any kind, and whether it ends within one."""

    packets: int = 0
    cut_off: bool = False


def packets(file: Path, seen: PacketCounts | None = None) -> Iterator[Packet]:
    """Yield the TCP packets of a pcap file, gzipped or not, up to where it is cut off.

    `seen` counts what else was there.

    Raises:
        BadInput: it is no pcap file, damaged, or of links whose packets are not known.
    """
    import dpkt  # all its protocols: longer than a forecast takes

    seen = seen or PacketCounts()
    with open_unpacked(file) as stream:
        whole = _WholeRecordReader(stream, file, seen)
        try:
            reader = dpkt.pcap.Reader(whole)
        except (ValueError, dpkt.UnpackError) as error:
            raise BadInput(_no_pcap(file, whole.began or b"", error)) from None
        link = reader.datalink()
        if link not in _LINKS:
            known = ", ".join(f"{name} ({number})" for number, (name, *_) in _LINKS.items())
            raise BadInput(f"{file}: link type {link}; expected {known}")
        _, type_at, ip_at = _LINKS[link]
        try:
            for seconds, raw in reader:
                seen.packets += 1
                time_us = round(seconds * 1_000_000)
                if time_us >= _END_US:
                    raise BadInput(
                        f"{file}: packet {seen.packets:,} is of a time past 2106: the file is "
                        "damaged; capture or copy it again"
                    )
                packet = _packet(time_us, raw, type_at, ip_at)
                if packet is not None:
                    yield packet
        except (dpkt.NeedData, EOFError):
            seen.cut_off = True


def _no_pcap(file: Path, began: bytes, error: Exception) -> str:
    if began.startswith(_PCAPNG):
        return (
            f"{file} is pcapng; expected pcap: tcpdump -r {file.name} -w capture.pcap converts it"
        )
    return f"{file}: not a packet capture ({error}); capture again"


class _WholeRecordReader:
    """Reads for dpkt: records whole or, at the end of a file that was cut off, not at all.

    `began` is what was read first.
    """

    def __init__(self, stream: IO[bytes], file: Path, seen: PacketCounts) -> None:
        self._stream, self._file, self._seen = stream, file, seen
        self.began: bytes | None = None

    def read(self, size: int) -> bytes:
        if size > _RECORD_BYTES:
            raise BadInput(
                f"{self._file}: packet {self._seen.packets + 1:,} claims {size:,} bytes, more than "
                f"{_RECORD_BYTES:,}: the file is damaged; capture or copy it again"
            )
        data = self._stream.read(size)
        self._seen.cut_off |= 0 < len(data) < size
        if self.began is None:
            self.began = data
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
    length, opens = max(end - offset, 0), bool(raw[tcp + 13] & _SYN)
    source = raw[first : first + size], int.from_bytes(raw[tcp : tcp + 2])
    target = raw[first + size : first + 2 * size], int.from_bytes(raw[tcp + 2 : tcp + 4])
    sequence = int.from_bytes(raw[tcp + 4 : tcp + 8])
    return Packet(time_us, raw, (source, target), sequence, offset, length, opens)
