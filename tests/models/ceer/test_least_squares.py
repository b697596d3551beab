import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ceer.least_squares import solve, solve_with_errors

ONES = np.ones(3)


def test_a_term_that_would_be_negative_is_left_out() -> None:
    design = np.column_stack([np.ones(4), np.array([1.0, 2.0, 3.0, 4.0])])
    us = np.array([40.0, 30.0, 20.0, 10.0])
    coefficients, errors = solve_with_errors(design, us, np.ones(4), relative=False)
    assert coefficients == pytest.approx([25, 0])
    # Of the mean of four: the standard deviation over the root of 4.
    assert errors == pytest.approx([np.std(us, ddof=1) / 2, 0])


def test_errors_relative_to_the_prediction_leave_sums_as_they_are() -> None:
    us = np.array([10.0, 20.0, 60.0])
    for relative in (True, False):
        assert solve(ONES[:, None], us, ONES, relative=relative) == pytest.approx([30])
    # Sizes of 1, 10 and 100: the mean of the ratios, not the ratio of the sums.
    sizes = np.array([[1.0], [10.0], [100.0]])
    times = 3 * sizes[:, 0] * np.array([0.9, 1.0, 1.1])
    assert solve(sizes, times, ONES, relative=True) == pytest.approx([3.0])
    assert solve(sizes, times, ONES, relative=False)[0] > 3.29


def test_rows_count_as_often_as_they_say() -> None:
    us, count = np.array([10.0, 40.0]), np.array([2.0, 1.0])
    assert solve(np.ones((2, 1)), us, count, relative=False) == pytest.approx([20])


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e6)), min_size=1, max_size=12
    ),
    relative=st.booleans(),
)
def test_no_coefficient_is_negative(rows: list[tuple[float, float, float]], relative: bool) -> None:
    table = np.array(rows)
    design = np.column_stack([np.ones(len(rows)), table[:, :2]])
    coefficients, errors = solve_with_errors(
        design, table[:, 2], np.ones(len(rows)), relative=relative
    )
    assert (coefficients >= 0).all()
    assert np.isfinite(coefficients).all()
    assert (errors >= 0).all()
