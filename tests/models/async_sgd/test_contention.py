"""From rows of table contention to shares: 1 MB/s alone, 600 and 300 kB/s of two."""

from collections.abc import Sequence

import polars as pl
import pytest

from models.async_sgd.contention import measured_sharing

LINK_BPS = 1.25e6


def rows(
    *shares: Sequence[float], direction: str = "downlink", seconds: float = 2.0
) -> pl.DataFrame:
    """Return the table for the bytes per second of one transfer, of two, and so on."""
    found = [
        (direction, len(speeds), place, seconds, int(speed * seconds))
        for speeds in shares
        for place, speed in enumerate(speeds)
    ]
    columns = ["direction", "flows", "place", "seconds", "bytes"]
    return pl.DataFrame(found, schema=columns, orient="row")


def test_efficiency_and_shares() -> None:
    found = measured_sharing(rows([1e6], [6e5, 3e5]), "downlink", LINK_BPS)
    assert found is not None
    assert (found.flows, found.largest_to) == ((1, 2), "oldest")
    assert found.efficiency == pytest.approx((0.8, 0.72))
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
    found = measured_sharing(pl.concat([rows([1e6]), rows([5e5])]), "downlink", LINK_BPS)
    assert found is not None
    assert found.efficiency == pytest.approx((0.6,))
