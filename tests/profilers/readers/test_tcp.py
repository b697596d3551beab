"""Reassembly: what was sent comes out, however it was cut, repeated or reordered."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.readers.tcp import PENDING_BYTES, Reassembly, Run, packets
from tests.profilers.readers.wire import HEADER_BYTES, packet, pieces, write
from warehouse.records import BadInput

A, B = ("10.77.0.1", 5000), ("10.77.0.2", 40_000)


def reassembled(segments: list[tuple[int, bytes]], start: int = 0) -> list[Run]:
    reassembly = Reassembly()
    runs: list[Run] = []
    for time_us, (offset, data) in enumerate(segments):
        runs += reassembly.add(time_us, (start + offset) % 2**32, data, len(data))
    return runs


@given(
    st.binary(min_size=1, max_size=60),
    st.integers(0, 2**32 - 1),
    st.lists(st.lists(st.integers(0, 100), max_size=8), min_size=1, max_size=3),
    st.randoms(use_true_random=False),
)
def test_segmentation_retransmits_and_order_do_not_matter(
    sent: bytes, start: int, cuts: list[list[int]], random: object
) -> None:
    """Each list of cuts is one way in which all of it is sent; segments then come in any order."""
    segments = [piece for one in cuts for piece in pieces(sent, one)]
    random.shuffle(segments)  # type: ignore[attr-defined]
    first = next(i for i, (offset, _) in enumerate(segments) if offset == 0)
    segments.insert(0, segments.pop(first))
    assert b"".join(run.data for run in reassembled(segments, start)) == sent


def test_bytes_count_from_their_first_arrival() -> None:
    runs = reassembled([(0, b"ab"), (4, b"ef"), (0, b"abcd"), (4, b"efgh")])
    assert runs == [
        Run(0, b"ab", 2, True),
        Run(2, b"cd", 2, False),
        Run(1, b"ef", 2, False),
        Run(3, b"gh", 2, False),
    ]


def test_a_hole_that_is_never_filled_is_skipped() -> None:
    much = bytes(PENDING_BYTES)
    runs = reassembled([(0, b"ab"), (3, much), (3 + len(much), b"yz")])
    assert [(run.length, run.after_hole) for run in runs] == [
        (2, True),
        (len(much), True),
        (2, False),
    ]


def test_what_waits_at_the_end_comes_after_a_hole() -> None:
    reassembly = Reassembly()
    assert [run.data for run in reassembly.add(0, 0, b"ab", 2)] == [b"ab"]
    assert list(reassembly.add(1, 5, b"fg", 2)) == []
    assert list(reassembly.rest()) == [Run(1, b"fg", 2, True)]
    assert list(reassembly.add(2, 900, b"x", 1)) == [Run(2, b"x", 1, True)]


def test_packets_of_a_file(tmp_path: Path) -> None:
    sent = [
        (1_700_000_000_123_456, packet(A, B, 7, b"hello")),
        (1_700_000_000_200_000, packet(B, A, 9, b"")),
    ]
    file = write(tmp_path / "a.pcap", sent, snap=HEADER_BYTES + 2)
    one, empty = packets(file)
    assert (empty.length, empty.data, empty.opens) == (0, b"", False)
    assert (one.time_us, one.sequence, one.length, one.data) == (1_700_000_000_123_456, 7, 5, b"he")
    assert one.flow == ((bytes([10, 77, 0, 1]), 5000), (bytes([10, 77, 0, 2]), 40_000))
    zipped = tmp_path / "a.pcap.gz"
    zipped.write_bytes(gzip.compress(file.read_bytes()))
    assert list(packets(zipped)) == [one, empty]


def test_a_file_may_be_cut_off_anywhere(tmp_path: Path) -> None:
    file = write(tmp_path / "a.pcap", [(i, packet(A, B, i, b"hello")) for i in range(3)])
    whole = file.read_bytes()
    for lost in range(1, 16 + HEADER_BYTES + 5):
        file.write_bytes(whole[:-lost])
        found = list(packets(file))
        assert [one.data for one in found[:2]] == [b"hello"] * 2
        assert [one.length for one in found[2:]] == ([5] if lost <= 5 else [])


@pytest.mark.parametrize("content", [b"", b"no capture at all, but long enough for a header"])
def test_another_file_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(content)
    with pytest.raises(BadInput, match="not a packet capture"):
        list(packets(file))
