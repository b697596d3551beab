"""Links of 1 MB/s, 1 byte per microsecond: figures are microseconds and bytes alike."""

import pytest

from models.async_sgd.streams import StreamScheduler, end_times, errors
from tests.models.async_sgd.captures import served
from tests.models.async_sgd.oracle.simulator import ComputationQueue
from warehouse.records import BadInput


def test_streams_are_sent_one_after_the_other() -> None:
    """The second comes while the first is sent; the third comes to an idle link."""
    rows = served((1, 100, 0, 0, 100), (3, 50, 20, 100, 160), (5, 10, 400, 400, 400))
    ends = end_times(rows, "downlink", 1e6, None)
    assert ends["predicted_us"].to_list() == [100, 150, 410]
    assert ends["error"].to_list() == pytest.approx([0, 10 / 160, 10 / 400])


def test_the_window_suspends_a_stream() -> None:
    """WIN = 30: 1 sends 30, 3 its 20, then 1 the rest."""
    rows = served((1, 100, 0, 0, 120), (3, 20, 10, 30, 50))
    ends = end_times(rows, "downlink", 1e6, 30)
    assert dict(ends.select("operation", "predicted_us").rows()) == {1: 120, 3: 50}
    assert ends["error"].to_list() == [0, 0]


def test_statistics() -> None:
    rows = served(*((2 * i + 1, 100, 1000 * i, 0, 1000 * i + 100) for i in range(1, 4)))
    summary = errors(end_times(rows, "downlink", 0.5e6, None), "downlink")
    each = sorted(100 / (1000 * i + 100) for i in range(1, 4))
    assert (summary.mean, summary.median, summary.maximum) == pytest.approx(
        (sum(each) / 3, each[1], each[2])
    )
    assert each[1] < summary.p95 < each[2]
    assert summary.n == 3


def test_nothing_captured_is_refused() -> None:
    nothing = end_times(served((1, 5, 0, 10, 15)), "uplink", 1e6, None)
    with pytest.raises(BadInput, match="no captured uplink streams"):
        errors(nothing, "uplink")


A, B, C, D, E = range(5)


def served_by(scheduler: StreamScheduler) -> list[tuple[int, float]]:
    chunks = []
    while scheduler:
        chunk = scheduler.next_chunk()
        chunks.append((chunk.operation, chunk.size))
    return chunks


def test_figure_12() -> None:
    """Fig. 12 of the paper: streams A to E, WIN = 3.

    The caption gives WIN, the names, and the rule: up to WIN in the first service, the rest in
    the second, in which streams (blue in the figure) are sent to completion. The drawing, with
    the sizes, is not part of the text we have; sizes here cover each case of section 3.2.2: below
    WIN (B, D), WIN itself (E), a remainder below WIN (A) and one above it (C). E arrives while
    B is being sent.
    """
    scheduler = StreamScheduler(window_bytes=3)
    for stream, size in ((A, 5), (B, 2), (C, 8), (D, 1)):
        scheduler.add(stream, size)
    first = [scheduler.next_chunk() for _ in range(2)]
    scheduler.add(E, 3)
    rest = []
    while scheduler:
        rest.append(scheduler.next_chunk())
    chunks = [(chunk.operation, chunk.size, chunk.last) for chunk in (*first, *rest)]
    assert chunks == [
        (A, 3, False),
        (B, 2, True),
        (C, 3, False),
        (D, 1, True),
        (A, 2, True),
        (E, 3, True),
        (C, 5, True),
    ]


def test_streams_that_arrive_during_the_first_service_go_before_the_second() -> None:
    scheduler = StreamScheduler(window_bytes=3)
    scheduler.add(A, 4)
    assert scheduler.next_chunk().operation == A
    scheduler.add(B, 1)
    assert served_by(scheduler) == [(B, 1), (A, 1)]


def test_without_flow_control_streams_are_whole() -> None:
    scheduler = StreamScheduler(window_bytes=None)
    for stream, size in ((B, 20), (A, 5), (C, 1)):
        scheduler.add(stream, size)
    assert served_by(scheduler) == [(B, 20), (A, 5), (C, 1)]


def test_enforced_order() -> None:
    scheduler = StreamScheduler(window_bytes=None, ranks=(2, 0, 1))
    for stream in (A, C, B):
        scheduler.add(stream, 7)
    assert served_by(scheduler) == [(B, 7), (C, 7), (A, 7)]


def test_flow_control_spoils_an_enforced_order() -> None:
    """Fig. 8(c): the first stream's remainder waits for all others' first service."""
    scheduler = StreamScheduler(window_bytes=3, ranks=(0, 1, 2))
    scheduler.add(A, 4)
    scheduler.add(C, 2)
    assert scheduler.next_chunk().operation == A
    scheduler.add(B, 5)
    assert served_by(scheduler) == [(B, 3), (C, 2), (A, 1), (B, 2)]


def test_computations_run_in_the_order_of_the_profile() -> None:
    queue = ComputationQueue()
    queue.add(A, 0.5, rank=2)
    queue.add(B, 0.25, rank=0)
    queue.add(C, 1.0, rank=1)
    chunks = [queue.next_chunk() for _ in range(3)]
    assert chunks == [(B, 0.25, True), (C, 1.0, True), (A, 0.5, True)]
    assert not queue
