"""The expected maximum of normal samples, against closed forms and sampling."""

from math import pi, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.srift.iteration import expected_maximum


def expected(*groups: tuple[float, float, int]) -> float:
    means, deviations, counts = zip(*groups, strict=True)
    (found,) = expected_maximum(
        np.array([means], dtype=float), np.array([deviations], dtype=float), np.array([counts])
    )
    return float(found)


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


def test_without_scatter_the_slowest_type_counts() -> None:
    assert expected((2.0, 0.0, 3), (5.0, 0.0, 1), (4.0, 0.0, 9)) == 5.0
    assert expected((2.0, 0.0, 3), (9.0, 9.0, 0)) == 2.0


def test_sampling_as_the_paper_tends_to_it() -> None:
    source = np.random.default_rng(1)
    draws = np.hstack(
        [source.normal(1.0, 0.05, (200_000, 8)), source.normal(1.05, 0.02, (200_000, 4))]
    )
    sampled = draws.max(axis=1)
    error = sampled.std() / sqrt(len(sampled))
    assert expected((1.0, 0.05, 8), (1.05, 0.02, 4)) == pytest.approx(sampled.mean(), abs=5 * error)


GROUPS = st.lists(
    st.tuples(st.floats(0.1, 10.0), st.floats(0.0, 2.0), st.integers(1, 64)),
    min_size=1,
    max_size=4,
)


@given(GROUPS, st.tuples(st.floats(0.1, 10.0), st.floats(0.0, 2.0), st.integers(1, 64)))
def test_another_group_never_makes_it_faster(
    groups: list[tuple[float, float, int]], more: tuple[float, float, int]
) -> None:
    assert expected(*groups, more) >= expected(*groups) * (1 - 1e-9)
