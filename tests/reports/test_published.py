"""Published forecasts have a table of their own, as the history judges them."""

from datetime import UTC, datetime

import polars as pl

from reports.study_sections import PUBLISHED
from tests.reports.pages import cells, headings

ROW = {
    "study": "grid",
    "backend": "emulated",
    "metric": "step_time_s",
    "system": "srift",
    "split": "held_out_dnn",
    "n": 12,
    "mape": 4.25,
    "median_ape": 3.0,
    "max_ape": 9.0,
    "inside_percent": None,
    "noise_floor": 2.0,
    "noise_n": 3,
    "sealed_at": datetime(2030, 1, 1, 9, 30, tzinfo=UTC),
    "first_measured_at": datetime(2030, 1, 2, 10, 5, tzinfo=UTC),
}


def test_published_forecasts_are_shown_as_they_were_judged() -> None:
    html = PUBLISHED.html(pl.DataFrame([ROW, ROW | {"split": None}]))
    assert headings(html) == ["Forecasts that were published before measuring"]
    assert cells(html)[1] == [
        "srift", "held out dnn", "4.2 %", "3.0 %", "9.0 %", "—", "2.0 %", "12",
        "2030-01-01 09:30", "2030-01-02 10:05",
    ]  # fmt: skip
    assert cells(html)[2][1] == "—"


def test_without_any_there_is_no_section() -> None:
    assert PUBLISHED.html(None) == ""
    assert PUBLISHED.html(pl.DataFrame([ROW]).clear()) == ""
