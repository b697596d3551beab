"""A resource of capacity 12 per second."""

from collections.abc import Sequence

import polars as pl
import pytest

from models.async_sgd.link_sharing import (
    Flow,
    MeasuredSharing,
    NewcomerWeights,
    SharedResource,
    measured_sharing,
    share,
)
from tests.made_run import raw_table

UNLIMITED = float("inf")


def test_equal_shares_up_to_the_cap() -> None:
    assert [share(12.0, active, 5.0) for active in (1, 2, 3, 4)] == [5, 5, 4, 3]


def test_flows_slow_down_and_speed_up_as_others_come_and_go() -> None:
    """One: 12 from 0 s alone, to 0.5 s half done; shares until 1.5 s.

    The other: 18 from 0.5 s, 6 by 1.5 s, the other 12 alone by 2.5 s.
    """
    resource = SharedResource(12.0, UNLIMITED)
    resource.start(0.0, Flow(0, 0, 7), size=12)
    assert resource.next_finish() == (1.0, Flow(0, 0, 7))
    resource.start(0.5, Flow(1, 0, 8), size=18)
    assert resource.next_finish() == (1.5, Flow(0, 0, 7))
    resource.finish(1.5)
    assert resource.next_finish() == (2.5, Flow(1, 0, 8))
    resource.finish(2.5)
    assert resource.next_finish() is None


def test_flows_share_in_proportion_to_their_weights() -> None:
    """Weights 3 and 1: 9 of 12 per second until 1 s, when the other has 3 of its 9."""
    resource = SharedResource(12.0, UNLIMITED)
    resource.start(0.0, Flow(0, 0, 0), size=9, weight=3.0)
    resource.start(0.0, Flow(1, 0, 0), size=9, weight=1.0)
    assert resource.next_finish() == (1.0, Flow(0, 0, 0))
    resource.finish(1.0)
    assert resource.next_finish() == (1.5, Flow(1, 0, 0))


def test_a_newcomer_has_less_of_what_it_finds_in_use() -> None:
    """Weights 1, 1/2 and 1/4: of 7 per second 4, 2 and 1."""
    resource = SharedResource(7.0, UNLIMITED, NewcomerWeights(0.5))
    for worker, size in enumerate((4, 4, 4)):
        resource.start(0.0, Flow(worker, 0, 0), size=size)
    assert resource.next_finish() == (1.0, Flow(0, 0, 0))


def test_a_worker_keeps_its_standing_until_it_pauses() -> None:
    """The second starts beside the first: 1/2; again at once, beside nobody, and after a pause."""
    standing, second = NewcomerWeights(0.5, pause_s=0.2), Flow(1, 0, 0)
    assert standing.of(0.0, Flow(0, 0, 0), found=0) == (1, 0.0)
    assert standing.of(0.5, second, found=1) == (0.5, 0.5)
    standing.ended(1.0, second)
    assert standing.of(1.1, second, found=0) == (0.5, 0.5)
    standing.ended(1.1, second)
    assert standing.of(1.4, second, found=0) == (1, 1.4)


def test_flows_that_end_together_end_by_worker_and_operation() -> None:
    resource = SharedResource(12.0, UNLIMITED)
    for worker, operation in ((1, 0), (0, 9), (0, 8)):
        resource.start(0.0, Flow(worker, 0, operation), size=4)
    ends = []
    while (upcoming := resource.next_finish()) is not None:
        ends.append(upcoming)
        resource.finish(upcoming[0])
    assert ends == [(1.0, Flow(0, 0, 8)), (1.0, Flow(0, 0, 9)), (1.0, Flow(1, 0, 0))]


LINK_BPS = 1.25e6


def rows(
    *shares: Sequence[float],
    direction: str = "downlink",
    seconds: float = 2.0,
    opposite: int | None = None,
) -> pl.DataFrame:
    """Return the table for the bytes per second of one transfer, of two, and so on."""
    records = [
        (direction, len(speeds), place, seconds, int(speed * seconds), opposite)
        for speeds in shares
        for place, speed in enumerate(speeds)
    ]
    return raw_table("contention", "direction flows place seconds bytes opposite", records)


def test_what_was_seen_for_a_moment_only_is_left_out() -> None:
    brief = rows([4e5, 4e5, 1e5], seconds=0.1)
    sharing = measured_sharing(pl.concat([rows([1e6], [5e5, 5e5]), brief]), "downlink", LINK_BPS)
    assert sharing is not None
    assert sharing.flows == (1, 2)
    assert measured_sharing(brief, "downlink", LINK_BPS) is None
    assert measured_sharing(rows([1e6]), "uplink", LINK_BPS) is None


def test_what_goes_the_other_way_slows_single_transfers() -> None:
    """Alone 0.8 and 0.4 of the link against one and three; two are as good as against none."""
    against = [
        rows([1e6], [5e5, 5e5], opposite=1),
        rows([9.9e5], seconds=0.1, opposite=2),
        rows([5e5], [3e5, 1e5], opposite=3),
    ]
    sharing = measured_sharing(pl.concat(against), "downlink", LINK_BPS)
    assert sharing is not None
    assert sharing.opposed == pytest.approx((1, 0.8, 0.8, 0.4))
    assert sharing.efficiency == pytest.approx((1, 0.8))


def test_efficiency_between_and_beyond() -> None:
    measured = MeasuredSharing((1, 2, 4), (1.0, 0.9, 0.7), (1.0, 0.9, 0.5))
    assert [measured.of(n) for n in (2, 3, 8)] == pytest.approx([0.9, 0.8, 0.7])
    assert [measured.against(m) for m in (0, 1, 2, 7)] == [1.0, 0.9, 0.5, 0.5]
