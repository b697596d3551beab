import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ceer.regression import Weights, solve, solve_with_errors

ONES = np.ones(3)
WEIGHTS: tuple[Weights, ...] = ("equal", "balanced", "relative")


def test_a_term_that_would_be_negative_is_left_out() -> None:
    design = np.column_stack([np.ones(4), np.array([1.0, 2.0, 3.0, 4.0])])
    us = np.array([40.0, 30.0, 20.0, 10.0])
    coefficients, errors = solve_with_errors(design, us, np.ones(4), "equal")
    assert coefficients == pytest.approx([25, 0])
    # Of the mean of four: the standard deviation over the root of 4.
    assert errors == pytest.approx([np.std(us, ddof=1) / 2, 0])


def test_errors_relative_to_the_prediction_leave_sums_as_they_are() -> None:
    us = np.array([10.0, 20.0, 60.0])
    for weights in WEIGHTS:
        assert solve(ONES[:, None], us, ONES, weights) == pytest.approx([30])
    # Sizes of 1, 10 and 100: the mean of the ratios, not the ratio of the sums.
    sizes = np.array([[1.0], [10.0], [100.0]])
    times = 3 * sizes[:, 0] * np.array([0.9, 1.0, 1.1])
    assert solve(sizes, times, ONES, "relative") == pytest.approx([3.0])
    assert solve(sizes, times, ONES, "equal")[0] > 3.29


@given(us=st.lists(st.floats(10, 1e5), min_size=3, max_size=9))
def test_balanced_errors_leave_the_sum_as_it_was(us: list[float]) -> None:
    design = np.array([[1.0 + i] for i in range(len(us))])
    solved = solve(design, np.array(us), np.ones(len(us)), "balanced")
    assert (design @ solved).sum() == pytest.approx(sum(us))


def test_terms_that_cannot_be_told_apart_have_no_errors() -> None:
    same = np.column_stack([np.arange(1.0, 5.0)] * 2)
    coefficients, errors = solve_with_errors(same, same[:, 0] * 6, np.ones(4), "equal")
    assert coefficients.sum() == pytest.approx(6)
    assert (coefficients >= 0).all()
    assert np.isfinite(errors).all()


def test_rows_count_as_often_as_they_say() -> None:
    us, count = np.array([10.0, 40.0]), np.array([2.0, 1.0])
    assert solve(np.ones((2, 1)), us, count, "equal") == pytest.approx([20])


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e6)), min_size=1, max_size=12
    ),
    weights=st.sampled_from(WEIGHTS),
)
def test_no_coefficient_is_negative(
    rows: list[tuple[float, float, float]], weights: Weights
) -> None:
    table = np.array(rows)
    design = np.column_stack([np.ones(len(rows)), table[:, :2]])
    coefficients, errors = solve_with_errors(design, table[:, 2], np.ones(len(rows)), weights)
    assert (coefficients >= 0).all()
    assert np.isfinite(coefficients).all()
    assert (errors >= 0).all()
