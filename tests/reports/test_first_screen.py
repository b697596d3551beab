"""The first screen says when forecasts were made."""

import polars as pl
import pytest

from forecasting.findings.study import OpeningFigures
from forecasting.results import summary
from reports.report import left_out_lines, sealed_sentence


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ((0, 0, 0), "nothing judged"),
        ((3, 0, 0), "forecasts published before measuring"),
        ((0, 0, 2), "forecasts made after the fact, from profiles"),
        (
            (3, 2, 1),
            "forecasts: 3 published before measuring; 2 made before the run, not published; "
            "1 made after the fact, from profiles",
        ),
    ],
)
def test_forecasts_are_sealed_or_not(counts: tuple[int, int, int], said: str) -> None:
    assert (
        sealed_sentence(OpeningFigures((), None, None, 0, *counts, points=pl.DataFrame())) == said
    )


def test_what_the_mean_leaves_out_is_said_with_the_mean_of_all() -> None:
    """Eight of the grid's eighty have one worker, and another page counts all of them."""
    rows = pl.DataFrame(
        {
            "workers": [1, 2, 2, 4],
            "error_percent": [50.0, 4.0, -6.0, 20.0],
            "linear_error_percent": [None, 1.0, 1.0, 1.0],
            "host_busy": [False, False, False, True],
            "noise_floor_percent": [None, None, None, None],
        },
        {
            "workers": pl.Int64,
            "error_percent": pl.Float64,
            "linear_error_percent": pl.Float64,
            "host_busy": pl.Boolean,
            "noise_floor_percent": pl.Float64,
        },
    )
    found = summary(rows)
    assert found.error == 5.0
    assert list(left_out_lines(rows, found)) == [
        "left out: 1 of one worker and 1 measured while the host was busy; with these 20.0 %, n = 4"
    ]
    counted = rows.filter(pl.col("workers") == 2)
    assert list(left_out_lines(counted, summary(counted))) == []
