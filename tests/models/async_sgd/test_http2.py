"""The worked example of Figure 12, and what it looks like when windows are opened early."""

import pytest

from models.async_sgd.http2 import behaviour
from tests.models.async_sgd.captures import frames, served
from warehouse.records import BadInput

WINDOW = ("worker", "SETTINGS", 0, 0, 6, 3)


def sent(stream: int, time_us: int, length: int) -> tuple[str, str, int, int, int, None]:
    return ("server", "DATA", stream, time_us, length, None)


def test_a_long_stream_is_suspended_once_at_the_window() -> None:
    """WIN = 3: stream 1 (5 bytes) lets 3 (2 bytes) pass; behind the last (4 bytes) nobody waits."""
    rows = served((1, 5, 0, 10, 17), (3, 2, 0, 13, 15), (5, 4, 20, 20, 24), segments=[2, 1, 1])
    seen = frames(WINDOW, sent(1, 10, 3), sent(3, 13, 2), sent(1, 15, 2), sent(5, 20, 4))
    found = behaviour(rows, seen, "downlink")
    assert (found.window_bytes, found.streams, found.suspended) == (3, 3, 1)
    assert (found.longer, found.longer_with_others_waiting) == (2, 1)
    assert found.first_service_bytes == 3
    assert (found.rule_holds, found.rule_holds_longer) == (1, 1)
    assert found.most_open == 2


def test_windows_that_are_opened_early_suspend_nothing() -> None:
    rows = served((1, 5, 0, 10, 15), (3, 2, 0, 15, 17))
    seen = frames(WINDOW, sent(1, 10, 2), sent(1, 13, 3), sent(3, 15, 2))
    found = behaviour(rows, seen, "downlink")
    assert (found.suspended, found.first_service_bytes) == (0, None)
    assert (found.rule_holds, found.rule_holds_longer) == (0.5, 0)


def test_a_stream_is_judged_by_the_window_at_its_first_packet() -> None:
    """WIN is 3 for the first stream and 7 for the second; what the sender announces is not WIN."""
    rows = served((1, 5, 0, 10, 15), (3, 5, 0, 20, 25))
    seen = frames(
        WINDOW,
        ("server", "SETTINGS", 0, 5, 6, 1),
        sent(1, 10, 5),
        ("worker", "SETTINGS", 0, 12, 6, 7),
        sent(3, 20, 5),
    )
    found = behaviour(rows, seen, "downlink")
    assert (found.first_window_bytes, found.window_bytes, found.longer) == (3, 7, 1)


def test_order_of_service() -> None:
    """Asked for as 1, 3, 5, 7; ready as 3, 1, 5, 7; served as 3, 1, 7, 5."""
    rows = served((1, 1, 4, 20, 21), (3, 1, 2, 10, 11), (5, 1, 6, 40, 41), (7, 1, 8, 30, 31))
    found = behaviour(rows, frames(), "downlink")
    assert found.in_order_of_requests == pytest.approx(1 / 3)
    assert found.in_order_of_starts == pytest.approx(2 / 3)
    assert found.window_bytes is None


def test_nothing_captured_is_refused() -> None:
    with pytest.raises(BadInput, match="no captured uplink streams"):
        behaviour(served((1, 5, 0, 10, 15)), frames(), "uplink")
