"""Figure 12's first streams: A (5 bytes) lets B (2 bytes) pass after 3, then goes on."""

from models.async_sgd.http2 import pieces
from tests.models.async_sgd.captures import frames, served

EPOCH_US = 1_000_000


def sent(stream: int, time_us: int, length: int) -> tuple[str, str, int, int, int, None]:
    return ("server", "DATA", stream, EPOCH_US + time_us, length, None)


ROWS = served((1, 5, 0, 10, 17), (3, 2, 0, 13, 15), segments=[2, 1])
SEEN = frames(sent(1, 10, 2), sent(1, 12, 1), sent(3, 13, 2), sent(1, 15, 2))


def test_a_suspended_stream_has_two_pieces() -> None:
    rows = pieces(ROWS, SEEN, "downlink", 0)
    assert rows.select("stream", "size_bytes", "bytes", "start_us", "end_us").rows() == [
        (1, 5, 3, 10, 13),
        (3, 2, 2, 13, 15),
        (1, 5, 2, 15, 17),
    ]


def test_other_frames_steps_and_directions_are_left_out() -> None:
    others = frames(
        ("worker", "DATA", 1, EPOCH_US + 11, 9, None),
        ("server", "HEADERS", 3, EPOCH_US + 14, 9, None),
        sent(99, 14, 9),
    )
    seen = pieces(ROWS, SEEN.vstack(others), "downlink", 0)
    assert seen.rows() == pieces(ROWS, SEEN, "downlink", 0).rows()
    assert pieces(ROWS, SEEN, "downlink", 1).is_empty()
    assert pieces(ROWS, SEEN, "uplink", 0).is_empty()
