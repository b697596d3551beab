"""The first screen's figures are of judged scenarios with several workers on a quiet host."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecasting.findings.study import opening_figures


def rows(*given_rows: tuple[int, float | None, bool, str | None]) -> pl.DataFrame:
    """Return rows: workers, error_percent, host_busy, made; measured is always 100."""
    frame = pl.DataFrame(
        given_rows,
        schema={
            "workers": pl.Int32,
            "error_percent": pl.Float64,
            "host_busy": pl.Boolean,
            "made": pl.String,
        },
        orient="row",
    )
    predicted = 100 + pl.col("error_percent")
    return frame.with_columns(
        system=pl.lit("srift"),
        measured=pl.lit(100.0),
        low=predicted - 5,
        high=predicted + 5,
        linear_error_percent=pl.lit(50.0),
    )


def test_one_worker_and_busy_hosts_do_not_count() -> None:
    found = opening_figures(
        rows(
            (1, 90.0, False, "sealed"),
            (2, -4.0, False, "sealed"),
            (2, 6.0, False, "before"),
            (4, 80.0, True, "after"),
            (8, None, False, None),
        )
    )
    assert (found.sealed, found.before, found.after) == (1, 1, 0)
    assert found.nine_of_ten == pytest.approx(4 + 0.9 * 2)
    assert (found.inside, found.inside_n) == (50.0, 2)
    assert found.systems == ("srift",)
    assert found.points["workers"].to_list() == [1, 2, 2, 4]


def test_a_round_of_one_worker_counts_whole() -> None:
    found = opening_figures(
        rows((1, 9.0, False, "sealed"), (1, -5.0, False, "before"), (1, 70.0, True, None))
    )
    assert (found.sealed, found.before, found.systems) == (1, 1, ("srift",))
    assert found.nine_of_ten == pytest.approx(5 + 0.9 * 4)


def test_without_verdicts_there_is_nothing() -> None:
    found = opening_figures(rows((2, None, False, None)))
    assert (found.nine_of_ten, found.inside, found.inside_n, found.systems) == (None, None, 0, ())


@given(st.lists(st.floats(-99, 500), min_size=1, max_size=30))
def test_nine_of_ten_are_within_it(errors: list[float]) -> None:
    found = opening_figures(rows(*((2, error, False, "after") for error in errors)))
    assert found.nine_of_ten is not None
    beyond = sum(abs(error) > found.nine_of_ten + 1e-9 for error in errors)
    assert beyond <= len(errors) / 10 + 1
    assert found.after == len(errors)
