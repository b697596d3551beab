"""Links of 10 bytes/s, of two servers and of workers."""

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.async_sgd import simulator
from models.async_sgd.link_sharing import MeasuredSharing
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import Sharing, SimulationOptions, Workers
from tests.models.async_sgd.graphs import SPEED_BPS, D, Op, U, job, options, random_ops
from tests.models.async_sgd.oracle.links import Connection, max_min, two_servers
from tests.models.async_sgd.oracle.simulator import simulate, simulate_together

JOINT: tuple[Sharing, ...] = ("max_min", "two_servers")


def run(servers: tuple[int, ...], *ops: Op, workers: int = 1, **changes: object) -> Trace:
    """Simulate operations on these servers."""
    graph, profiled = job(*ops)
    made = options(workers, 1, record=True, **changes)
    return simulate(replace(graph, servers=servers), [profiled], made)


def test_transfers_the_other_way_slow_a_flow() -> None:
    """Up, 24 bytes beside two downlinks: 5 of 10 a second until they end, after 2 s; then 10."""
    measured = MeasuredSharing((1,), (1.0,), (1.0, 0.8, 0.5))
    slow, fast = (Op(U, 24),), (Op(D, 10),)
    graphs = [job(*slow), job(*fast)]
    chosen = options(
        sharing="max_min", uplink_measured=measured, worker_uplink_Bps=SPEED_BPS, record=True
    )
    trained = [
        Workers(graph, [profiled], replace(chosen, workers=count))
        for (graph, profiled), count in zip(graphs, (1, 2), strict=True)
    ]
    trace = simulate_together(trained)
    assert trace.step_ends_s.ravel().tolist() == pytest.approx([3.4, 2.0, 2.0])


@given(
    st.builds(random_ops, st.integers(0, 10**6), st.integers(1, 60)),
    st.builds(
        options,
        st.integers(1, 6),
        st.just(3),
        newcomer_weight=st.sampled_from([1.0, 0.7]),
        downlink_spread=st.sampled_from([0.1, 0.4]),
        uplink_spread=st.sampled_from([0.1, 0.4]),
        window_bytes=st.sampled_from([None, 50.5]),
    ),
    st.sampled_from(JOINT),
)
def test_with_one_server_all_rules_are_one(
    ops: list[Op], chosen: SimulationOptions, rule: Sharing
) -> None:
    graph, profiled = job(*ops)
    simple, joint = (
        simulator.simulate(graph, [profiled], replace(chosen, sharing=sharing))
        for sharing in ("equal", rule)
    )
    np.testing.assert_allclose(joint.step_ends_s, simple.step_ends_s, rtol=1e-9)


FAIR_BPS = 12.0


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
        dict.fromkeys((connection.server for connection in used), FAIR_BPS) | (servers_Bps or {}),
        dict.fromkeys((connection.worker for connection in used), FAIR_BPS) | (workers_Bps or {}),
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
    assert two_servers(used, [1.0] * len(used), FAIR_BPS) == pytest.approx(rates)


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
    for connection, rate, weight in zip(used, rates, weights, strict=True):
        for link in ((0, connection.server), (1, connection.worker)):
            carried[link] += rate
            level[link] = max(level[link], rate / weight)
    speed = {link: FAIR_BPS if link[0] == 0 else workers_Bps[link[1]] for link in carried}
    assert all(carried[link] <= speed[link] * (1 + 1e-9) for link in carried)
    for connection, rate, weight in zip(used, rates, weights, strict=True):
        assert any(
            carried[link] == pytest.approx(speed[link])
            and level[link] == pytest.approx(rate / weight)
            for link in ((0, connection.server), (1, connection.worker))
        )
