"""Reassembly: what was sent comes out, however it was cut, repeated or reordered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.readers.http2 import PENDING_BYTES, ByteRun, PendingBytes, Reassembly
from tests.profilers.readers.wire import pieces
from warehouse import limits


def reassembled(segments: list[tuple[int, bytes]], start: int = 0) -> list[ByteRun]:
    reassembly = Reassembly(PendingBytes())
    runs: list[ByteRun] = []
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
    segments = [piece for cut in cuts for piece in pieces(sent, cut)]
    random.shuffle(segments)  # type: ignore[attr-defined]
    first = next(i for i, (offset, _) in enumerate(segments) if offset == 0)
    segments.insert(0, segments.pop(first))
    assert b"".join(run.data for run in reassembled(segments, start)) == sent


def test_bytes_count_from_their_first_arrival() -> None:
    runs = reassembled([(0, b"ab"), (4, b"ef"), (0, b"abcd"), (4, b"efgh")])
    assert runs == [
        ByteRun(0, b"ab", 2, True),
        ByteRun(2, b"cd", 2, False),
        ByteRun(1, b"ef", 2, False),
        ByteRun(3, b"gh", 2, False),
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
    reassembly = Reassembly(PendingBytes())
    assert [run.data for run in reassembly.add(0, 0, b"ab", 2)] == [b"ab"]
    assert list(reassembly.add(1, 5, b"fg", 2)) == []
    assert list(reassembly.rest()) == [ByteRun(1, b"fg", 2, True)]
    assert list(reassembly.add(2, 900, b"x", 1)) == [ByteRun(2, b"x", 1, True)]


def test_small_segments_that_wait_count_as_what_they_take_in_memory() -> None:
    """A byte that waits takes hundreds: 8 MiB of such segments would take gigabytes."""
    waiting = PendingBytes()
    reassembly = Reassembly(waiting)
    assert len(list(reassembly.add(0, 0, b"ab", 2))) == 1
    for position in range(PENDING_BYTES // 128):
        runs = list(reassembly.add(1, 3 + position, b"x", 1))
        if runs:
            break
    assert runs[0].after_hole
    assert len(runs) > PENDING_BYTES // 512
    assert waiting.size_bytes == 0


def test_what_waits_in_all_connections_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WAITING_BYTES", 10_000)
    waiting = PendingBytes()
    flows = [Reassembly(waiting) for _ in range(50)]
    for flow in flows:
        list(flow.add(0, 0, b"ab", 2))
    for flow in flows:
        for _ in flow.add(1, 5, bytes(1000), 1000):
            pass
        assert waiting.size_bytes <= 10_000
    assert sum(len(list(flow.rest())) for flow in flows) == 10_000 // 1256
    assert waiting.size_bytes == 0
