"""Packets of capture files: which are TCP, where files end, what is refused."""

import gzip
from pathlib import Path

import pytest

from profilers.readers.tcp import packets
from tests.profilers.readers.wire import HEADER_BYTES, packet, write
from warehouse.records import BadInput

A, B = ("10.77.0.1", 5000), ("10.77.0.2", 40_000)


def test_packets_of_a_file(tmp_path: Path) -> None:
    sent = [
        (1_700_000_000_123_456, packet(A, B, 7, b"hello")),
        (1_700_000_000_200_000, packet(B, A, 9, b"")),
    ]
    file = write(tmp_path / "a.pcap", sent, snap=HEADER_BYTES + 2)
    cut, empty = packets(file)
    assert (empty.length, empty.data, empty.opens) == (0, b"", False)
    assert (cut.time_us, cut.sequence, cut.length, cut.data) == (1_700_000_000_123_456, 7, 5, b"he")
    assert cut.flow == ((bytes([10, 77, 0, 1]), 5000), (bytes([10, 77, 0, 2]), 40_000))
    zipped = tmp_path / "a.pcap.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert list(packets(zipped)) == [cut, empty]


def test_a_file_may_be_cut_off_anywhere(tmp_path: Path) -> None:
    file = write(tmp_path / "a.pcap", [(i, packet(A, B, i, b"hello")) for i in range(3)])
    whole = file.read_bytes()
    for lost in range(1, 16 + HEADER_BYTES + 5):
        file.write_bytes(whole[:-lost])
        kept = list(packets(file))
        assert [segment.data for segment in kept[:2]] == [b"hello"] * 2
        assert [segment.length for segment in kept[2:]] == ([5] if lost <= 5 else [])


def test_a_time_that_no_capture_has_is_refused_with_the_packet(tmp_path: Path) -> None:
    sent = [(i, packet(A, B, i, b"hello")) for i in range(2)]
    file = write(tmp_path / "a.pcap", sent)
    whole = bytearray(file.read_bytes())
    second = 24 + 16 + HEADER_BYTES + 5
    whole[second : second + 8] = b"\xff" * 8
    file.write_bytes(whole)
    with pytest.raises(BadInput, match=r"a\.pcap: packet 2 is of a time past 2106: .* damaged"):
        list(packets(file))
