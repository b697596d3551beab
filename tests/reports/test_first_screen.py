"""The first screen says when forecasts were made."""

import polars as pl
import pytest

from forecasting.findings.opening import Opening
from reports.first_screen import made


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
    assert made(Opening((), None, None, 0, *counts, points=pl.DataFrame())) == said
