from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.ceer.features import NAMES
from models.ceer.regression import Regression, fit, refit, solve


def points(
    input_mb: list[float], us: list[float], dnns: int = 4, **columns: list[float]
) -> pl.DataFrame:
    """Return points of several DNNs in turn, all with count 1; features not given are 0."""
    height = len(input_mb)
    given = {"input": input_mb, **columns}
    frame = pl.DataFrame({name: given.get(name, [0.0] * height) for name in NAMES})
    return frame.cast(pl.Float64).with_columns(
        pl.Series("dnn", [f"dnn{i % dnns}" for i in range(height)]),
        pl.Series("mean_us", us, dtype=pl.Float64),
        pl.lit(1.0).alias("count"),
    )


def fitted(frame: pl.DataFrame, **settings: Any) -> Regression:
    return fit(frame, operation_type="Relu", node_type="slow", **settings)


def at(**columns: float) -> dict[str, np.ndarray]:
    return {name: np.array([columns.get(name, 0.0)]) for name in NAMES}


@pytest.mark.parametrize("published", [False, True])
def test_a_line_is_found(published: bool) -> None:
    sizes = [1.0, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 34.0]
    line = fitted(points(sizes, [10 + 5 * size for size in sizes]), published=published)
    assert line.form == "linear"
    assert line.terms == ("1", "input")
    assert line.coefficients_us == pytest.approx((10, 5))
    assert line.sum_error == pytest.approx(0, abs=1e-9)
    assert line.predict_us(at(input=100.0)) == pytest.approx([510])
    total = sum(10 + 5 * size for size in sizes)
    assert line.us_per_input_mb == pytest.approx(total / sum(sizes))


def test_a_parabola_is_found() -> None:
    sizes = [float(i) for i in range(1, 13)]
    parabola = fitted(points(sizes, [7 + 3 * size**2 for size in sizes]))
    assert parabola.form == "quadratic"
    assert parabola.predict_us(at(input=20.0)) == pytest.approx([1207])


def test_work_decides_where_sizes_do_not() -> None:
    work = [1.0, 9.0, 2.0, 7.0, 3.0, 8.0, 4.0, 6.0]
    sizes = [5.0, 5.0, 6.0, 6.0, 7.0, 7.0, 8.0, 8.0]
    frame = points(sizes, [20 * value for value in work], work=work, inside=work)
    assert fitted(frame).form == "work"
    assert fitted(frame).predict_us(at(work=100.0)) == pytest.approx([2000])
    assert fitted(frame, published=True).form not in ("work", "work and sizes")


def test_errors_are_of_dnns_that_were_left_out() -> None:
    constant = fitted(points([1.0] * 3, [10.0, 10.0, 40.0], dnns=3), published=True)
    # The mean of the two others: 25 for 10, 25 for 10, 10 for 40.
    expected = ((1.5**2 + 1.5**2 + 0.75**2) / 3) ** 0.5
    assert constant.sum_error == pytest.approx(expected)
    # Both operations of a DNN are off by as much as ever, in opposite directions.
    rows = points([1.0] * 6, [5.0, 15.0, 5.0, 15.0, 5.0, 15.0], dnns=6).with_columns(
        pl.Series("dnn", ["a", "a", "b", "b", "c", "c"])
    )
    pairs = fitted(rows, published=True)
    assert pairs.sum_error == pytest.approx(0)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_what_never_varied_is_not_extrapolated(count: int) -> None:
    constant = fitted(points([4e-6] * count, [100.0 / 3] * count))
    assert (constant.form, constant.terms) == ("constant", ("1",))
    assert constant.predict_us(at(input=8.0)) == pytest.approx([100 / 3])
    assert (constant.sum_error is None) == (count == 1)


@given(
    rows=st.lists(
        st.tuples(*[st.floats(0, 100) for _ in range(3)], st.floats(0, 1e6)),
        min_size=1,
        max_size=20,
    ),
    asked=st.tuples(*[st.floats(0, 1e4) for _ in range(3)]),
    published=st.booleans(),
)
def test_no_prediction_is_negative_and_none_falls_with_size(
    rows: list[tuple[float, ...]], asked: tuple[float, ...], published: bool
) -> None:
    sizes, filters, work, us = map(list, zip(*rows, strict=True))
    given = points(sizes, us, filter=filters, work=work, inside=work)
    regression = fitted(given, published=published)
    small = dict(zip(("input", "filter", "work"), asked, strict=True))
    large = {name: 2 * value for name, value in small.items()}
    small_us, large_us = (
        regression.predict_us(at(**values, inside=values["work"])) for values in (small, large)
    )
    assert 0 <= small_us[0] <= large_us[0]
    assert Regression.model_validate_json(regression.canonical_json()) == regression


ONES = np.ones(3)


def test_errors_relative_to_the_prediction_leave_sums_as_they_are() -> None:
    us = np.array([10.0, 20.0, 60.0])
    for published in (False, True):
        assert solve(ONES[:, None], us, ONES, published) == pytest.approx([30])
    # Sizes of 1, 10 and 100: the ratio of the sums, not that of the largest.
    sizes = np.array([[1.0], [10.0], [100.0]])
    times = 3 * sizes[:, 0] * np.array([0.9, 1.0, 1.1])
    assert solve(sizes, times, ONES, False) == pytest.approx([times.sum() / 111])
    assert solve(sizes, times, ONES, True)[0] > 3.29


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1e3), st.floats(0, 1e3), st.floats(0, 1e6)), min_size=1, max_size=12
    ),
    published=st.booleans(),
)
def test_no_coefficient_is_negative(
    rows: list[tuple[float, float, float]], published: bool
) -> None:
    table = np.array(rows)
    design = np.column_stack([np.ones(len(rows)), table[:, :2]])
    coefficients = refit(design, table[:, 2], np.ones(len(rows)), published)
    assert (coefficients >= 0).all()
    assert np.isfinite(coefficients).all()
