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
    assert (empty.length, empty.data) == (0, b"")
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


def test_what_is_no_capture_is_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"

    def refused() -> str:
        with pytest.raises(BadInput) as error:
            list(packets(file))
        assert "\n" not in str(error.value)
        return str(error.value)

    assert "is not there" in refused()
    file.write_text("no capture, but text that is long enough for a header")
    assert "not a packet capture" in refused()
    whole = write(file, [(0, packet(A, B, 1, b"x"))]).read_bytes()
    file.write_bytes(whole[:32] + b"\xff\xff\xff\x7f" + whole[36:])
    assert "a packet claims" in refused() and "the file is damaged" in refused()
    file.write_bytes(whole[:20] + b"\x7f\x00\x00\x00" + whole[24:])
    assert "link type 127; expected Ethernet" in refused()
