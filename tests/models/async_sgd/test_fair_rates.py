"""Links of 12 bytes/s; connections are (worker, server)."""

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.async_sgd.oracle.links import Connection, max_min, two_servers

SPEED_BPS = 12.0


def connections(*pairs: tuple[int, int]) -> list[Connection]:
    return [Connection(*pair) for pair in pairs]


def fair(
    pairs: list[tuple[int, int]],
    weights: list[float] | None = None,
    servers_Bps: dict[int, float] | None = None,
    workers_Bps: dict[int, float] | None = None,
) -> list[float]:
    used = connections(*pairs)
    return max_min(
        used,
        weights or [1.0] * len(used),
        dict.fromkeys((one.server for one in used), SPEED_BPS) | (servers_Bps or {}),
        dict.fromkeys((one.worker for one in used), SPEED_BPS) | (workers_Bps or {}),
    )


@pytest.mark.parametrize(
    ("pairs", "rates"),
    [
        ([(0, 0)], [12]),
        ([(0, 0), (1, 0), (2, 0)], [4, 4, 4]),
        ([(0, 0), (0, 1)], [6, 6]),
        ([(0, 0), (1, 1)], [12, 12]),
        ([(0, 0), (0, 1), (1, 1), (2, 1)], [8, 4, 4, 4]),
        ([(0, 0), (0, 1), (1, 0), (1, 1)], [6, 6, 6, 6]),
    ],
)
def test_two_servers_by_hand(pairs: list[tuple[int, int]], rates: list[float]) -> None:
    """The fifth is the paper's case: 1/3 of server 1, and 1 - 1/3 of server 0."""
    assert fair(pairs) == pytest.approx(rates)
    used = connections(*pairs)
    assert two_servers(used, [1.0] * len(used), SPEED_BPS) == pytest.approx(rates)


def test_three_servers_fill_a_worker_s_link() -> None:
    """Worker 0 has 2 of server 2's 12, so 10 of its own are left for two servers."""
    many = [(0, 0), (0, 1), *((worker, 2) for worker in range(6))]
    assert fair(many) == pytest.approx([5, 5, *[2] * 6])


def test_a_slow_worker_leaves_its_share_to_others() -> None:
    assert fair([(0, 0), (1, 0), (2, 0)], workers_Bps={1: 2.0}) == pytest.approx([5, 2, 5])


def test_a_slow_server_leaves_the_worker_s_link_to_others() -> None:
    assert fair([(0, 0), (0, 1)], servers_Bps={1: 3.0}) == pytest.approx([9, 3])


def test_shares_are_by_weight() -> None:
    """2 : 1 of server 0; worker 0's link has 4 left beside its 8 there."""
    assert fair([(0, 0), (1, 0)], [2.0, 1.0]) == pytest.approx([8, 4])
    assert fair([(0, 0), (1, 0), (0, 1)], [2.0, 1.0, 1.0]) == pytest.approx([8, 4, 4])


def test_the_paper_s_rule_by_weight() -> None:
    """Worker 0 has 2/3 of server 1 and 1/3 of its own link is left for server 0."""
    used = connections((0, 0), (0, 1), (1, 1))
    assert two_servers(used, [1.0, 2.0, 1.0], SPEED_BPS) == pytest.approx([4, 8, 4])


def test_unequal_shares_shrink_to_the_worker_s_link() -> None:
    """3/4 of both servers are 18, one and a half times worker 0's link."""
    used = connections((0, 0), (0, 1), (1, 0), (1, 1))
    rates = two_servers(used, [3.0, 3.0, 1.0, 1.0], SPEED_BPS)
    assert rates == pytest.approx([6, 6, 3, 3])


some_pairs = st.sets(st.tuples(st.integers(0, 4), st.integers(0, 1)), min_size=1)


@given(some_pairs)
def test_the_paper_s_rule_is_max_min_fair(pairs: set[tuple[int, int]]) -> None:
    used = connections(*pairs)
    ruled = two_servers(used, [1.0] * len(used), SPEED_BPS)
    assert ruled == pytest.approx(fair(list(pairs)))


@given(
    st.sets(st.tuples(st.integers(0, 4), st.integers(0, 3)), min_size=1),
    st.lists(st.floats(0.1, 10), min_size=20, max_size=20),
    st.lists(st.sampled_from([1.0, 5.0, 12.0, float("inf")]), min_size=5, max_size=5),
)
def test_every_connection_has_a_full_link_on_which_none_has_more_for_its_weight(
    pairs: set[tuple[int, int]], drawn: list[float], own: list[float]
) -> None:
    used, weights = connections(*pairs), drawn[: len(pairs)]
    workers_Bps = dict(enumerate(own))
    rates = fair(list(pairs), weights, workers_Bps=workers_Bps)
    carried: dict[tuple[int, int], float] = defaultdict(float)
    level: dict[tuple[int, int], float] = defaultdict(float)
    for one, rate, weight in zip(used, rates, weights, strict=True):
        for link in ((0, one.server), (1, one.worker)):
            carried[link] += rate
            level[link] = max(level[link], rate / weight)
    speed = {link: SPEED_BPS if link[0] == 0 else workers_Bps[link[1]] for link in carried}
    assert all(carried[link] <= speed[link] * (1 + 1e-9) for link in carried)
    for one, rate, weight in zip(used, rates, weights, strict=True):
        assert any(
            carried[link] == pytest.approx(speed[link])
            and level[link] == pytest.approx(rate / weight)
            for link in ((0, one.server), (1, one.worker))
        )


@given(some_pairs, st.lists(st.floats(0.1, 10), min_size=10, max_size=10))
def test_the_paper_s_rule_never_exceeds_a_link(
    pairs: set[tuple[int, int]], drawn: list[float]
) -> None:
    used = connections(*pairs)
    carried: dict[tuple[str, int], float] = defaultdict(float)
    rates = two_servers(used, drawn[: len(used)], SPEED_BPS)
    for one, rate in zip(used, rates, strict=True):
        carried["server", one.server] += rate
        carried["worker", one.worker] += rate
    assert max(carried.values()) <= SPEED_BPS * (1 + 1e-9)
