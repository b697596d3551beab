"""Which transfers there are, and when."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.srift.exchange import (
    MIB,
    Allreduce,
    Buckets,
    Event,
    batch_exchange_s,
    exchange,
    exchange_s,
    transfers,
)


def test_pytorch_s_buckets() -> None:
    """The first is full at 1 MiB, others at 25 MiB, each with the tensor that fills it."""
    sizes = [4 * MIB, 30 * MIB, 20 * MIB, 20 * MIB, MIB // 2, MIB // 2, MIB // 2]
    ready = [1.0, 0.9, 0.8, 0.7, 0.3, 0.2, 0.1]
    planned = transfers(sizes, ready, buckets=Buckets())
    assert (planned.size_bytes / MIB).tolist() == [1.0, 40.5, 30.0, 4.0]
    assert planned.ready.tolist() == [0.2, 0.8, 0.9, 1.0]


@given(
    st.lists(st.tuples(st.integers(0, 100), st.floats(0, 1)), max_size=12),
    st.integers(1, 60),
    st.integers(1, 60),
)
def test_buckets_hold_all_gradients_and_wait_for_them(
    layers: list[tuple[int, float]], first_bytes: int, limit_bytes: int
) -> None:
    sizes, ready = [size for size, _ in layers], [at for _, at in layers]
    alone = transfers(sizes, ready)
    buckets = transfers(sizes, ready, buckets=Buckets(first_bytes=first_bytes, bytes=limit_bytes))
    assert buckets.size_bytes.sum() == sum(sizes)
    assert (np.diff(buckets.ready) >= 0).all()
    for i in range(len(buckets.ready)):
        # All that a bucket and those before it hold was there when it started.
        ready_bytes = alone.size_bytes[alone.ready <= buckets.ready[i]].sum()
        assert buckets.size_bytes[: i + 1].sum() <= ready_bytes


STARTS = st.floats(0.0, 5.0)
TRANSFERS = st.lists(
    st.builds(
        Allreduce,
        start_s=STARTS,
        wire_bytes=st.floats(0.0, 100.0),
        bus_Bps=st.floats(0.5, 50.0),
    ),
    min_size=1,
    max_size=8,
)
MOST = st.sampled_from([None, 1, 2])
SLOWDOWN = st.sampled_from([0.0, 0.0, 0.4])
CAPS = st.one_of(st.just(float("inf")), st.floats(0.5, 80.0))


def test_a_transfer_alone_goes_at_its_own_speed() -> None:
    assert exchange([Allreduce(2.0, 30.0, 10.0)], 100.0) == [
        Event(2.0, "start", 0, 1),
        Event(5.0, "finish", 0, 0),
    ]


def test_transfers_share_the_cap_while_they_overlap() -> None:
    """Equation (2) with a cap of 10.

    The first, 16 bytes at 8/s, has sent 8 by 1 s. Then 8 + 8 exceed 10: both get 5/s, and the
    first ends at 1 + 8/5 = 2.6 s. The second has sent 8 of 16 and ends 1 s later, alone at 8/s.
    """
    events = exchange([Allreduce(0.0, 16.0, 8.0), Allreduce(1.0, 16.0, 8.0)], 10.0)
    assert [(event.kind, event.transfer, event.concurrent) for event in events] == [
        ("start", 0, 1),
        ("start", 1, 2),
        ("finish", 0, 1),
        ("finish", 1, 0),
    ]
    assert [event.time_s for event in events] == pytest.approx([0.0, 1.0, 2.6, 3.6])


def test_one_at_a_time() -> None:
    """Waiting for its turn, the second starts at 2 s, the third, issued at 5 s, at once."""
    jobs = [Allreduce(0.0, 8.0, 4.0), Allreduce(1.0, 10.0, 5.0), Allreduce(5.0, 5.0, 5.0)]
    events = exchange(jobs, 100.0, most=1)
    assert [(event.time_s, event.kind, event.transfer, event.concurrent) for event in events] == [
        (0.0, "start", 0, 1),
        (2.0, "finish", 0, 0),
        (2.0, "start", 1, 1),
        (4.0, "finish", 1, 0),
        (5.0, "start", 2, 1),
        (6.0, "finish", 2, 0),
    ]


def test_transfers_slow_the_backward_pass() -> None:
    """At half speed from 1 s to 3 s, while the first goes on, 2 of 4 s are done by 3 s.

    The second gradient, after 3 undisturbed seconds, is there at 4 s, and ends at 5 s.
    """
    jobs = [Allreduce(1.0, 8.0, 4.0), Allreduce(3.0, 4.0, 4.0)]
    events = exchange(jobs, 100.0, slowdown=1.0)
    assert [event.time_s for event in events] == [1.0, 3.0, 4.0, 5.0]
    assert [event.time_s for event in exchange(jobs, 100.0)] == [1.0, 3.0, 3.0, 4.0]


def test_the_backward_pass_hinders_transfers() -> None:
    """From 1 s to the end of the pass, 4 s, 6 of 8 bytes go at half speed.

    Both at once: the pass goes on at half speed after 1 s, and ends at 7 s with 4 of 16 bytes left.
    """
    jobs = [Allreduce(1.0, 8.0, 4.0), Allreduce(4.0, 0.0, 1.0)]
    events = exchange(jobs, 100.0, hindrance=1.0)
    assert [event.time_s for event in events] == [1.0, 4.0, 4.0, 4.5]
    longer = [Allreduce(1.0, 16.0, 4.0), jobs[1]]
    assert exchange_s(longer, 100.0, slowdown=1.0, hindrance=1.0) == 8.0


@given(TRANSFERS, CAPS, MOST)
def test_every_transfer_starts_and_finishes_once(
    transfers: list[Allreduce], cap_Bps: float, most: int | None
) -> None:
    events = exchange(transfers, cap_Bps, most)
    assert most is None or max(event.concurrent for event in events) <= most
    assert [event.time_s for event in events] == sorted(event.time_s for event in events)
    for kind in ("start", "finish"):
        assert sorted(event.transfer for event in events if event.kind == kind) == list(
            range(len(transfers))
        )
    assert events[-1].concurrent == 0


@given(st.lists(st.tuples(TRANSFERS, CAPS), min_size=1, max_size=5), MOST, SLOWDOWN, SLOWDOWN)
def test_many_at_once_are_as_one_after_the_other(
    jobs: list[tuple[list[Allreduce], float]],
    most: int | None,
    slowdown: float,
    hindrance: float,
) -> None:
    longest = max(len(transfers) for transfers, _ in jobs)
    starts = np.full((len(jobs), longest), np.inf)
    wire, bus = np.zeros((len(jobs), longest)), np.ones((len(jobs), longest))
    for row, (planned, _) in enumerate(jobs):
        ordered = sorted(planned, key=lambda transfer: transfer.start_s)
        starts[row, : len(ordered)] = [transfer.start_s for transfer in ordered]
        wire[row, : len(ordered)] = [transfer.wire_bytes for transfer in ordered]
        bus[row, : len(ordered)] = [transfer.bus_Bps for transfer in ordered]
    caps = np.array([cap_Bps for _, cap_Bps in jobs])
    exchanges_s = batch_exchange_s(starts, wire, bus, caps, most, slowdown, hindrance)
    expected = [
        exchange_s(transfers, cap_Bps, most, slowdown, hindrance) for transfers, cap_Bps in jobs
    ]
    np.testing.assert_allclose(exchanges_s, expected, rtol=1e-9, atol=1e-12)
