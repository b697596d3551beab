"""The table of all scenarios: per dollar where prices are known, and whose forecast is shown."""

from dataclasses import replace

import polars as pl

from forecasting.findings.study import describe_round
from reports.study_sections import scenarios_section
from studies.rounds import Round
from tests.reports.pages import cells
from tests.reports.test_report import results


def test_what_a_dollar_trains_stands_beside_it(round_: Round) -> None:
    rows = results(round_)
    priced = pl.DataFrame(
        {
            "scenario_id": rows["scenario_id"][:1],
            "usd_per_hour": [0.5],
            "predicted": [1234.5],
            "measured": [None],
        },
        schema_overrides={"measured": pl.Float64},
    )
    head, first, second, *_ = cells(scenarios_section(rows, describe_round(round_), priced))
    place = head.index("per dollar, predicted")
    assert head[place + 1] == "per dollar, measured"
    assert first[place : place + 2] == ["1,234", "—"]
    assert second[place : place + 2] == ["—", "—"]
    assert "per dollar" not in scenarios_section(rows, describe_round(round_), None)


def test_forecasts_of_an_earlier_round_say_so(round_: Round) -> None:
    rows = results(round_).with_columns(
        made=pl.Series(["sealed", "before", None, None], dtype=pl.String),
        forecast_round=pl.Series([2, 2, 1, None], dtype=pl.Int32),
    )
    html = scenarios_section(rows, replace(describe_round(round_), repeat=2), None)
    assert [row[-1] for row in cells(html)] == [
        "forecast made", "published", "before its run", "for round 1", "—"
    ]  # fmt: skip
    assert "shows the forecast of an earlier round" in html
    assert "an earlier round" not in scenarios_section(
        results(round_), describe_round(round_), None
    )


def test_what_nobody_measured_is_not_judged(round_: Round) -> None:
    rows = results(round_, made=None, measured=None, error_percent=None)
    assert {
        row[-1] for row in cells(scenarios_section(rows, describe_round(round_), None))[1:]
    } == {"not judged"}
