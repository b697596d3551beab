"""Packet captures → TCP segments."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

from profilers.readers.contract import open_unpacked
from warehouse.records import BadInput

_RECORD_BYTES = 2**20
_END_US = 2**32 * 1_000_000
"""Seconds of a pcap file have 32 bits."""
_TCP, _IPV4 = b"\x06", b"\x08\x00"
_ETHERNET, _TYPE_AT, _IP_AT = 1, 12, 14
"""The link type of pcap; where a frame's type stands, and where IP begins."""

Endpoint = tuple[bytes, int]
Flow = tuple[Endpoint, Endpoint]
"""Sender and receiver of one direction of a connection."""


class Packet(NamedTuple):
    """One captured packet; TCP `data` begins at `offset` in it and may be cut off by the capture.

    `length` counts the bytes that TCP sent, captured or not; 0: an acknowledgement, or a connection
    opens or ends. Before `sequence` everything else was sent.
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


def packets(file: Path) -> Iterator[Packet]:
    """Yield the TCP packets over IPv4 of a pcap file, gzipped or not, up to where it is cut off.

    Raises:
        BadInput: it is no pcap file of Ethernet, or damaged.
    """
    import dpkt  # all its protocols: longer than a forecast takes

    with open_unpacked(file) as stream:
        try:
            reader = dpkt.pcap.Reader(_WholeRecordReader(stream, file))
        except (ValueError, dpkt.UnpackError) as error:
            raise BadInput(f"{file}: not a packet capture ({error}); capture again") from None
        if (link := reader.datalink()) != _ETHERNET:
            raise BadInput(f"{file}: link type {link}; expected Ethernet ({_ETHERNET})")
        with suppress(dpkt.NeedData, EOFError):
            for number, (seconds, raw) in enumerate(reader, start=1):
                time_us = round(seconds * 1_000_000)
                if time_us >= _END_US:
                    raise BadInput(
                        f"{file}: packet {number:,} is of a time past 2106: the file is damaged; "
                        "capture or copy it again"
                    )
                packet = _packet(time_us, raw)
                if packet is not None:
                    yield packet


class _WholeRecordReader:
    """Reads for dpkt: records whole or, at the end of a file that was cut off, not at all."""

    def __init__(self, stream: IO[bytes], file: Path) -> None:
        self._stream, self._file = stream, file

    def read(self, size: int) -> bytes:
        if size > _RECORD_BYTES:
            raise BadInput(
                f"{self._file}: a packet claims {size:,} bytes, more than {_RECORD_BYTES:,}: the "
                "file is damaged; capture or copy it again"
            )
        return self._stream.read(size)


def _packet(time_us: int, raw: bytes) -> Packet | None:
    """Read headers by hand: dpkt would copy the whole packet at every layer."""
    if raw[_TYPE_AT:_IP_AT] != _IPV4 or len(raw) < _IP_AT + 20:
        return None
    tcp = _IP_AT + (raw[_IP_AT] & 15) * 4
    end = _IP_AT + int.from_bytes(raw[_IP_AT + 2 : _IP_AT + 4])
    # A fragment that is not the first begins with no TCP header.
    is_tcp = raw[_IP_AT + 9 : _IP_AT + 10] == _TCP and not raw[_IP_AT + 6] & 31 | raw[_IP_AT + 7]
    if len(raw) < tcp + 20 or not is_tcp:
        return None
    # Where the device is to cut a segment, the kernel may not have written its length yet.
    end = len(raw) if end == _IP_AT else end
    offset = tcp + (raw[tcp + 12] >> 4) * 4
    source = raw[_IP_AT + 12 : _IP_AT + 16], int.from_bytes(raw[tcp : tcp + 2])
    target = raw[_IP_AT + 16 : _IP_AT + 20], int.from_bytes(raw[tcp + 2 : tcp + 4])
    sequence = int.from_bytes(raw[tcp + 4 : tcp + 8])
    return Packet(time_us, raw, (source, target), sequence, offset, max(end - offset, 0))
