"""Which transfers there are, and when."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.srift.exchange import MIB, Buckets, exchange_s, transfers


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


TRANSFERS = st.lists(
    st.tuples(st.floats(0.0, 5.0), st.floats(0.0, 100.0), st.floats(0.5, 50.0)),
    min_size=1,
    max_size=8,
)
"""When each may start, its bytes on the wire, and bytes/s of it alone."""
Transfer = tuple[float, float, float]
MOST = st.sampled_from([None, 1, 2])
SLOWDOWN = st.sampled_from([0.0, 0.0, 0.4])
CAPS = st.one_of(st.just(float("inf")), st.floats(0.5, 80.0))


def end_s(*transfers: Transfer, cap_Bps: float = 100.0, **how: Any) -> float:
    """Return when one exchange ends."""
    starts, wire, bus = (np.array([each]) for each in zip(*transfers, strict=True))
    (ends_s,) = exchange_s(starts, wire, bus, np.array([cap_Bps]), **how)
    return float(ends_s)


def test_transfers_share_the_cap_while_they_overlap() -> None:
    """Equation (2) with a cap of 10.

    The first, 16 bytes at 8/s, has sent 8 by 1 s. Then 8 + 8 exceed 10: both get 5/s, and the
    first ends at 1 + 8/5 = 2.6 s. The second has sent 8 of 16 and ends 1 s later, alone at 8/s.
    """
    assert end_s((2.0, 30.0, 10.0)) == 5.0
    assert end_s((0.0, 16.0, 8.0), (1.0, 16.0, 8.0), cap_Bps=10.0) == pytest.approx(3.6)


def test_one_at_a_time() -> None:
    """Waiting for its turn, the second starts at 2 s, the third, issued at 5 s, at once."""
    jobs = (0.0, 8.0, 4.0), (1.0, 10.0, 5.0), (5.0, 5.0, 5.0)
    assert [end_s(*jobs[:count], most=1) for count in (1, 2, 3)] == [2.0, 4.0, 6.0]


def test_transfers_slow_the_backward_pass() -> None:
    """At half speed from 1 s to 3 s, while the first goes on, 2 of 4 s are done by 3 s.

    The second gradient, after 3 undisturbed seconds, is there at 4 s, and ends at 5 s.
    """
    jobs = (1.0, 8.0, 4.0), (3.0, 4.0, 4.0)
    assert [end_s(*jobs, slowdown=slowdown) for slowdown in (0.0, 1.0)] == [4.0, 5.0]


def test_the_backward_pass_hinders_transfers() -> None:
    """From 1 s to the end of the pass, 4 s, 6 of 8 bytes go at half speed.

    Both at once: the pass goes on at half speed after 1 s, and ends at 7 s with 4 of 16 bytes left.
    """
    ended = (4.0, 0.0, 1.0)
    assert end_s((1.0, 8.0, 4.0), ended, hindrance=1.0) == 4.5
    assert end_s((1.0, 16.0, 4.0), ended, slowdown=1.0, hindrance=1.0) == 8.0


def event_by_event_s(
    transfers: list[Transfer], cap_Bps: float, most: int | None, slowdown: float, hindrance: float
) -> float:
    """Return the same in plain numbers, as section 4.3 has it."""
    coming, waiting, active = sorted(transfers), list[list[float]](), list[list[float]]()
    now_s = computed_s = 0.0
    while coming or waiting or active:
        while waiting and (most is None or len(active) < most):
            active.append(waiting.pop(0))
        pace = 1 + slowdown if active else 1.0
        is_crowded = sum(bus_Bps for _, bus_Bps in active) >= cap_Bps
        rates_Bps = [
            (min(bus_Bps, cap_Bps / len(active)) if is_crowded else bus_Bps)
            / (1 + hindrance if coming else 1.0)
            for _, bus_Bps in active
        ]
        ends_s = [now_s + left / rate for (left, _), rate in zip(active, rates_Bps, strict=True)]
        start_s = now_s + max(coming[0][0] - computed_s, 0.0) * pace if coming else inf
        at_s = min(start_s, *ends_s, inf)
        for each, rate_Bps in zip(active, rates_Bps, strict=True):
            each[0] = max(each[0] - rate_Bps * (at_s - now_s), 0.0)
        computed_s, now_s = computed_s + (at_s - now_s) / pace, at_s
        if at_s in ends_s:
            del active[ends_s.index(at_s)]
        else:
            waiting.append(list(coming.pop(0)[1:]))
    return now_s


@given(st.lists(st.tuples(TRANSFERS, CAPS), min_size=1, max_size=5), MOST, SLOWDOWN, SLOWDOWN)
def test_many_at_once_are_as_one_event_after_the_other(
    jobs: list[tuple[list[Transfer], float]], most: int | None, slowdown: float, hindrance: float
) -> None:
    longest = max(len(transfers) for transfers, _ in jobs)
    starts = np.full((len(jobs), longest), np.inf)
    wire, bus = np.zeros((len(jobs), longest)), np.ones((len(jobs), longest))
    for row, (planned, _) in enumerate(jobs):
        columns = zip(*sorted(planned), strict=True)
        for table, values in zip((starts, wire, bus), columns, strict=True):
            table[row, : len(planned)] = values
    caps = np.array([cap_Bps for _, cap_Bps in jobs])
    expected = [event_by_event_s(*job, most, slowdown, hindrance) for job in jobs]
    found_s = exchange_s(starts, wire, bus, caps, most, slowdown, hindrance)
    np.testing.assert_allclose(found_s, expected, rtol=1e-9, atol=1e-12)
