"""What is sent next: streams are suspended once, after WIN bytes, or in an enforced order."""

from tests.models.async_sgd.oracle.simulator import ComputationQueue
from tests.models.async_sgd.oracle.streams import StreamScheduler

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
