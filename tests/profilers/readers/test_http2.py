"""Framing: the same frames, however TCP cut them, and again after what a capture lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from profilers.readers.http2 import (
    HEAD_BYTES,
    PENDING_BYTES,
    ByteRun,
    Frame,
    FrameParser,
    PendingBytes,
    Reassembly,
)
from tests.profilers.readers.wire import data, frame, headers, pieces, settings, window_update
from warehouse import limits

STREAMS = st.integers(1, 50).map(lambda n: 2 * n - 1)
FRAMES = st.one_of(
    st.builds(data, STREAMS, st.binary(max_size=2 * HEAD_BYTES)),
    st.builds(headers, STREAMS),
    st.builds(settings, st.integers(0, 2**31 - 1)),
    st.builds(window_update, STREAMS, st.integers(1, 2**31 - 1)),
)


def framed(runs: list[tuple[int, bytes]], captured: int | None = None) -> list[Frame]:
    """Return the frames of runs (time, bytes) of each of which only a beginning was captured."""
    framing = FrameParser()
    return [
        frame
        for i, (time_us, sent) in enumerate(runs)
        for frame in framing.feed(ByteRun(time_us, sent[:captured], len(sent), i == 0))
    ]


def kinds(frames: list[Frame]) -> list[tuple[str, int, int, bytes, int | None]]:
    return [
        (frame.type, frame.stream, frame.length_bytes, frame.head, frame.value) for frame in frames
    ]


@given(st.lists(FRAMES, min_size=1, max_size=6), st.lists(st.integers(0, 10_000), max_size=12))
def test_segmentation_does_not_matter(sent: list[bytes], cuts: list[int]) -> None:
    whole = framed([(0, b"".join(sent))])
    assert len(whole) == len(sent)
    assert kinds(framed(pieces(b"".join(sent), cuts))) == kinds(whole)


def test_what_frames_say() -> None:
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    frames = framed([(5, preface + settings(4_194_304) + window_update(0, 99) + headers(7))])
    assert [(frame.type, frame.stream, frame.value) for frame in frames] == [
        ("SETTINGS", 0, 4_194_304),
        ("WINDOW_UPDATE", 0, 99),
        ("HEADERS", 7, None),
    ]


def test_a_frame_lasts_from_its_first_to_its_last_packet() -> None:
    sent = data(1, bytes(3000))
    (frame,) = framed([(10, sent[:4]), (30, sent[4:1000]), (20, sent[1000:])])
    assert (frame.first_us, frame.last_us, frame.length_bytes) == (10, 30, 3000)


def test_payloads_may_be_cut_off_by_the_capture() -> None:
    """Of each packet 40 bytes are kept; headers stand at the beginning of packets."""
    runs = [(0, data(1, b"x" * 900)), (1, data(3, b"y" * 700)), (2, headers(1))]
    frames = framed(runs, captured=40)
    assert [(frame.type, frame.stream, frame.length_bytes) for frame in frames] == [
        ("DATA", 1, 900),
        ("DATA", 3, 700),
        ("HEADERS", 1, 1),
    ]


def test_after_a_lost_header_framing_goes_on_with_the_next_packet_that_begins_with_one() -> None:
    two = data(1, b"x" * 900) + data(1, b"y" * 100)
    runs = [(0, two), (1, b"no header"), (2, data(3, b"z" * 20) + headers(3))]
    frames = framed(runs, captured=500)
    assert [(frame.type, frame.stream) for frame in frames] == [
        ("DATA", 1),
        ("DATA", 3),
        ("HEADERS", 3),
    ]


def test_spans_of_tensors_leave_headers_and_heads() -> None:
    framing = FrameParser()
    sent = data(1, bytes(HEAD_BYTES + 500)) + headers(1)
    list(framing.feed(ByteRun(0, sent, len(sent), True)))
    assert framing.tensor_spans == [(9 + HEAD_BYTES, 9 + HEAD_BYTES + 500)]


def test_bytes_that_are_no_frames() -> None:
    assert framed([(0, b"GET / HTTP/1.1\r\n"), (1, frame(9, 0)), (2, frame(4, 3))]) == []


def reassembled(segments: list[tuple[int, bytes]], start: int = 0) -> list[ByteRun]:
    reassembly = Reassembly(PendingBytes())
    runs: list[ByteRun] = []
    for time_us, (offset, part) in enumerate(segments):
        runs += reassembly.add(time_us, (start + offset) % 2**32, part, len(part))
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
