"""Linear scaling: closed forms, and its two trainings against each other."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.linear_scaling import rate_of_all, rate_of_one, step_time_s, steps_per_s

SECONDS = st.floats(1e-3, 1e3)


def test_w_workers_do_w_times_the_steps_of_one() -> None:
    assert steps_per_s([(4, 0.5)]) == 8
    assert steps_per_s([(2, 0.5), (3, 2.0)]) == 5.5


def test_the_slowest_decides_where_all_wait() -> None:
    assert step_time_s([0.5, 2.0, 1.0]) == 2


@given(st.integers(1, 100), SECONDS)
def test_like_workers_do_as_much_whether_they_wait_or_not(workers: int, alone_s: float) -> None:
    assert steps_per_s([(workers, alone_s)]) == pytest.approx(workers / step_time_s([alone_s]))


@given(st.lists(st.tuples(st.integers(1, 9), SECONDS), min_size=1))
def test_waiting_is_never_faster(workers: list[tuple[int, float]]) -> None:
    waited = sum(count for count, _ in workers) / step_time_s(alone_s for _, alone_s in workers)
    assert waited <= steps_per_s(workers) * (1 + 1e-9)


def test_rates_of_rows() -> None:
    rows = pl.DataFrame({"rate": [6.0, 8.0], "workers": [2, 4]})
    rate, workers = pl.col("rate"), pl.col("workers")
    assert rows.select(rate_of_one(rate, workers))["rate"].to_list() == [3, 2]
    assert rows.select(rate_of_all(rate, workers))["rate"].to_list() == [12, 32]
