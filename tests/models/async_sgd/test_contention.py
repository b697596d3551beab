"""From rows of table contention to shares: 1 MB/s alone, 600 and 300 kB/s of two."""

from collections.abc import Sequence

import polars as pl
import pytest

from models.async_sgd.link_sharing import measured_sharing, measured_spread

LINK_BPS = 1.25e6


def rows(
    *shares: Sequence[float],
    direction: str = "downlink",
    seconds: float = 2.0,
    log_share_sd: float | None = None,
    opposite: int | None = None,
) -> pl.DataFrame:
    """Return the table for the bytes per second of one transfer, of two, and so on."""
    found = [
        (direction, len(speeds), place, seconds, int(speed * seconds), log_share_sd, opposite)
        for speeds in shares
        for place, speed in enumerate(speeds)
    ]
    schema = {
        "direction": pl.String,
        "flows": pl.Int16,
        "place": pl.Int16,
        "seconds": pl.Float64,
        "bytes": pl.Int64,
        "log_share_sd": pl.Float64,
        "opposite": pl.Int16,
    }
    return pl.DataFrame(found, schema=schema, orient="row")


def test_efficiency_and_shares() -> None:
    found = measured_sharing(rows([1e6], [6e5, 3e5]), "downlink", LINK_BPS)
    assert found is not None
    assert (found.flows, found.largest_to) == ((1, 2), "oldest")
    assert found.efficiency == pytest.approx((1, 0.72))
    assert found.shares[1] == pytest.approx((2 / 3, 1 / 3))


def test_the_newest_may_get_more() -> None:
    found = measured_sharing(rows([1e6], [3e5, 6e5], [2e5, 3e5, 4e5]), "downlink", LINK_BPS)
    assert found is not None
    assert found.largest_to == "newest"
    assert found.shares[2] == pytest.approx((4 / 9, 3 / 9, 2 / 9))


def test_what_was_seen_for_a_moment_only_is_left_out() -> None:
    brief = rows([4e5, 4e5, 1e5], seconds=0.1)
    found = measured_sharing(pl.concat([rows([1e6], [5e5, 5e5]), brief]), "downlink", LINK_BPS)
    assert found is not None
    assert found.flows == (1, 2)
    assert measured_sharing(brief, "downlink", LINK_BPS) is None
    assert measured_sharing(rows([1e6]), "uplink", LINK_BPS) is None


def test_trials_add_up() -> None:
    twice = pl.concat([rows([6e5, 4e5]), rows([3e5, 2e5])])
    found = measured_sharing(twice, "downlink", LINK_BPS)
    assert found is not None
    assert found.efficiency == pytest.approx((1, 0.6))


def test_what_goes_the_other_way_slows_single_transfers() -> None:
    """Alone 0.8 and 0.4 of the link against one and three; two are as good as against none."""
    against = [
        rows([1e6], [5e5, 5e5], opposite=1),
        rows([9.9e5], seconds=0.1, opposite=2),
        rows([5e5], [3e5, 1e5], opposite=3),
    ]
    found = measured_sharing(pl.concat(against), "downlink", LINK_BPS)
    assert found is not None
    assert found.opposed == pytest.approx((1, 0.8, 0.8, 0.4))
    assert found.efficiency == pytest.approx((1, 0.8))
    assert found.shares[1] == pytest.approx((0.5, 0.5))


def test_where_nobody_counted_nothing_went_the_other_way() -> None:
    found = measured_sharing(rows([1e6], [6e5, 3e5]), "downlink", LINK_BPS)
    assert found is not None
    assert found.opposed == (1.0,)


def test_weights_vary_more_than_shares() -> None:
    """Of two, log shares vary with half the variance of log weights; of three, with two thirds."""
    two, three = rows([1, 1], log_share_sd=0.2), rows([1, 1, 1], log_share_sd=0.2)
    assert measured_spread(two, "downlink") == pytest.approx(0.2 * 2**0.5)
    assert measured_spread(three, "downlink") == pytest.approx(0.2 * 1.5**0.5)
    assert measured_spread(rows([1, 1]), "downlink") is None
    assert measured_spread(two, "uplink") is None
