"""Sections of a report: published forecasts, and scenarios."""

from dataclasses import replace
from datetime import UTC, datetime

import polars as pl

from forecasting.evaluation import Evaluation
from reports.html import Section
from reports.study_sections import published_section, scenarios_section
from studies.rounds import Round
from tests.reports.pages import cells
from tests.reports.test_report import results

ROW_OF_PUBLISHED = {
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


def body(section: Section | None) -> str:
    assert section is not None
    return section.body


def scenarios(rows: pl.DataFrame, round_: Round) -> str:
    return body(scenarios_section(Evaluation(round_, rows, pl.DataFrame())))


def test_published_forecasts_are_shown_as_they_were_judged() -> None:
    rows = pl.DataFrame([ROW_OF_PUBLISHED, ROW_OF_PUBLISHED | {"split": None}])
    html = body(published_section(rows))
    assert cells(html)[1] == [
        "srift", "held out dnn", "4.2 %", "3.0 %", "9.0 %", "—", "2.0 %", "12",
        "2030-01-01 09:30", "2030-01-02 10:05",
    ]  # fmt: skip
    assert cells(html)[2][1] == "—"


def test_forecasts_of_an_earlier_round_say_so(round_: Round) -> None:
    rows = results(round_).with_columns(
        made=pl.Series(["sealed", "before", None, None], dtype=pl.String),
        forecast_round=pl.Series([2, 2, 1, None], dtype=pl.Int32),
    )
    html = scenarios(rows, replace(round_, repeat=2))
    assert [row[-1] for row in cells(html)] == [
        "forecast made", "published", "before its run", "for round 1", "—"
    ]  # fmt: skip
    assert "shows the forecast of an earlier round" in html
    assert "an earlier round" not in scenarios(results(round_), round_)


def test_what_nobody_measured_is_not_judged(round_: Round) -> None:
    rows = results(round_, made=None, measured=None, error_percent=None)
    assert {row[-1] for row in cells(scenarios(rows, round_))[1:]} == {"not judged"}
