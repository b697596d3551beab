"""SIM of section 4.3 by hand."""

from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.srift.iteration import (
    Configuration,
    ConfigurationGroup,
    Performance,
    expected_maximum,
    step_time_s,
)
from tests.models.srift.performances import node, performances, rated

RATES = rated(a=100.0, b=50.0)


def group(node_type: str, count: int, batch_size: int) -> ConfigurationGroup:
    return ConfigurationGroup(node_type=node_type, count=count, batch_size=batch_size)


def step_s(performance: Performance, *groups: ConfigurationGroup) -> float:
    return step_time_s(performance, Configuration(groups=groups))


NETWORK = Performance(
    layer_bytes=(600, 200),
    nodes={
        "a": node(1.0, 2.0, ready=(1.0, 0.5)),
        "b": node(1.0, 3.0, ready=(1.0, 0.25), max_batch=8, update_s=0.5),
    },
    bandwidth=RATES,
)
"""Two layers of 600 and 200 bytes, the second ready first, on two node types."""


def test_one_device_exchanges_nothing() -> None:
    assert step_s(NETWORK, group("a", 1, 4)) == 4 + 8


def test_exchange_follows_the_backward_pass() -> None:
    """Two nodes move 2s(n − 1)/n = s over links of 100 B/s; the backward pass takes 2 s.

    Of 200 bytes that start at 1 s, 100 are left at 2 s, when 600 start. Sharing, the former end at
    4 s, when 500 are left of the latter, which end at 9 s.
    """
    nodes = {"a": node(1.0, 2.0, ready=(1.0, 0.5), link_Bps=100.0)}
    capped = NETWORK.model_copy(update={"nodes": nodes})
    assert step_s(capped, group("a", 2, 1)) == pytest.approx(1 + 9)


def test_the_slowest_type_computes_and_the_slowest_link_carries() -> None:
    """Type b is slower: 1 + 3 s and 0.5 s of update. Mixed, all-reduces go at 50 B/s.

    200 bytes from 0.75 s take 4 s, 600 from 3 s 12 s, on links that could carry both.
    """
    assert step_s(NETWORK, group("a", 1, 1), group("b", 1, 1)) == pytest.approx(1 + 15 + 0.5)


def test_stragglers_stretch_both_passes() -> None:
    """The slower of two nodes takes 1/√π standard deviations more than the mean."""
    nodes = {"a": node(1.0, 2.0, ready=(1.0, 0.5), scale=0.1)}
    slow = NETWORK.model_copy(update={"layer_bytes": (0, 0), "nodes": nodes})
    assert step_s(slow, group("a", 2, 1)) == pytest.approx((1 + 2) * (1 + 0.1 * 0.5641895835))


@given(performances())
def test_it_never_ends_before_its_passes(performance: Performance) -> None:
    name = next(iter(performance.nodes))
    devices = performance.nodes[name].devices
    for count in (1, 2, 5):
        latency = performance.nodes[name].latency
        alone = float(latency.forward(1) + latency.backward(1)) + latency.update_s
        assert step_s(performance, group(name, count, devices)) >= alone * (1 - 1e-9)


def expected(*groups: tuple[float, float, int]) -> float:
    means, deviations, counts = zip(*groups, strict=True)
    (maximum,) = expected_maximum(
        np.array([means], dtype=float), np.array([deviations], dtype=float), np.array([counts])
    )
    return float(maximum)


@pytest.mark.parametrize(
    ("count", "deviations"),
    [(1, 0.0), (2, 1 / sqrt(pi)), (3, 1.5 / sqrt(pi)), (10, 1.5387527308), (100, 2.5075936365)],
)
def test_equal_nodes(count: int, deviations: float) -> None:
    """E max of n standard normal samples: closed forms for 2 and 3, tables for more."""
    assert expected((10.0, 0.5, count)) == pytest.approx(10 + 0.5 * deviations, rel=1e-7)


@pytest.mark.parametrize(
    ("one", "other"), [((10.0, 0.3), (10.5, 0.4)), ((1.0, 1e-3), (1.0, 1.0)), ((3.0, 0.0), (3, 1))]
)
def test_two_unlike_nodes(one: tuple[float, float], other: tuple[float, float]) -> None:
    """Clark (1961): E max = m1 Φ(d/θ) + m2 Φ(−d/θ) + θ φ(d/θ), θ² = s1² + s2², d = m1 − m2."""
    from statistics import NormalDist

    normal = NormalDist()
    theta = sqrt(one[1] ** 2 + other[1] ** 2)
    z = (one[0] - other[0]) / theta
    clark = one[0] * normal.cdf(z) + other[0] * normal.cdf(-z) + theta * normal.pdf(z)
    assert expected((*one, 1), (*other, 1)) == pytest.approx(clark, rel=1e-9)


def test_sampling_as_the_paper_tends_to_it() -> None:
    source = np.random.default_rng(1)
    draws = np.hstack(
        [source.normal(1.0, 0.05, (200_000, 8)), source.normal(1.05, 0.02, (200_000, 4))]
    )
    sampled = draws.max(axis=1)
    error = sampled.std() / sqrt(len(sampled))
    assert expected((1.0, 0.05, 8), (1.05, 0.02, 4)) == pytest.approx(sampled.mean(), abs=5 * error)


GROUPS = st.lists(
    st.tuples(st.floats(0.1, 10.0), st.floats(0.0, 2.0), st.integers(1, 64)), min_size=1, max_size=4
)


@given(GROUPS, st.tuples(st.floats(0.1, 10.0), st.floats(0.0, 2.0), st.integers(1, 64)))
def test_another_group_never_makes_it_faster(
    groups: list[tuple[float, float, int]], more: tuple[float, float, int]
) -> None:
    assert expected(*groups, more) >= expected(*groups) * (1 - 1e-9)
