"""Later rounds show what they know: forecasts that stand, measurements nobody judged."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from forecasting.findings.study import (
    describe_round,
    merge_pending,
    opening_figures,
    with_pending,
    with_time_made,
)
from forecasting.fits import fit_curves, predict_missing
from forecasting.results import latest_forecasts, outcome, summary
from models.async_sgd.systems import ASYNC_SGD
from models.linear_scaling import LINEAR
from pipelines.cli.run_job import print_results
from reports import study_sections
from studies.measurement import measure
from studies.messages import Progress
from studies.rounds import Round
from studies.study import read_study
from tests.reports.pages import cells
from tests.synthetic import HOST, STUDY, opened
from warehouse.warehouse import Warehouse

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def second(study_file: Path) -> Round:
    """Return the second round of a study of four scenarios, of which nothing was profiled."""
    return replace(opened(read_study(study_file), "emulated", HOST, []), repeat=2)


def ledger(round_: Round, *forecasts: tuple[int, int, str, float]) -> pl.DataFrame:
    """Return rows of the ledger: place of the scenario, round, system, value."""
    scenarios = [
        scenario for curve in round_.study.curves for scenario in curve.scenarios("emulated")
    ]
    rows = [
        {
            "study": "paper",
            "repeat": repeat,
            "backend": "emulated",
            "host_id": HOST,
            "metric": "throughput_steps_per_s",
            "system": system,
            "subject_id": scenarios[place].scenario_id,
            "value": value,
            "low": value - 1,
            "high": value + 1,
            "made_at": NOON + timedelta(days=repeat),
        }
        for place, repeat, system, value in forecasts
    ]
    return pl.DataFrame(rows)


def test_the_newest_forecast_stands_but_none_of_a_later_round(second: Round) -> None:
    rows = latest_forecasts(
        second,
        ledger(
            second,
            (0, 1, "async_sgd", 5.0),
            (0, 2, "async_sgd", 6.0),
            (0, 3, "async_sgd", 7.0),
            (1, 1, "async_sgd", 8.0),
            (1, 1, "linear", 9.0),
        ),
    )
    found = {row["predicted"]: row["forecast_round"] for row in rows.to_dicts()}
    assert found == {6.0: 2, 8.0: 1}
    assert rows["linear"].drop_nulls().to_list() == [9.0]


def test_a_scenario_without_verdict_shows_what_is_known(second: Round) -> None:
    """W=1 was measured and forecast a round earlier, W=2 only forecast, alexnet neither."""
    nothing = outcome(second, pl.DataFrame(schema=_accuracy_schema()))
    newest = latest_forecasts(
        second,
        ledger(second, (0, 1, "async_sgd", 5.0), (0, 1, "linear", 6.0), (1, 1, "async_sgd", 8.0)),
    )
    first = nothing["scenario_id"][0]
    measured = pl.DataFrame({"scenario_id": [first], "value": [4.0], "started_at": [NOON]})
    rows = merge_pending(second, nothing, newest, measured)
    assert rows["predicted"].to_list() == [5.0, 8.0, None, None]
    assert rows["low"].to_list() == [4.0, 7.0, None, None]
    assert rows["measured"].to_list() == [4.0, None, None, None]
    assert rows["linear"].to_list() == [6.0, None, None, None]
    assert rows["forecast_round"].to_list() == [1, 1, None, None]
    assert rows["error_percent"].null_count() == 4, "what stands is judged by its own round"


def test_forecasts_say_when_they_were_made() -> None:
    rows = pl.DataFrame(
        {
            "prediction_id": ["a", "b", "c", None],
            "made_at": [NOON, NOON, NOON + timedelta(hours=2), NOON],
            "started_at": [NOON + timedelta(hours=1)] * 4,
            "error_percent": [1.0, 2.0, 3.0, None],
        }
    )
    sealed = pl.DataFrame({"prediction_id": ["a"]})
    assert with_time_made(rows, sealed)["made"].to_list() == ["sealed", "before", "after", None]


@pytest.mark.exhaustive
def test_a_round_that_profiles_nothing_again_shows_predictions(
    landed_round: Callable[[str], Round], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its measurements have landed; links and traces were not repeated."""
    first, warehouse = landed_round(STUDY), Warehouse(home)
    warehouse.load()
    for system in (ASYNC_SGD, LINEAR):
        fits = fit_curves(system, first, warehouse, Progress())
        warehouse.record_fit(*(fit.record for fit in fits))
        predict_missing(system, first, warehouse, Progress(), fits)
    later = measure(replace(first, repeat=2, runs=()), warehouse.landing, Progress())
    warehouse.load()
    assert {run.probe for run in later.runs} == {"tf_throughput"}
    rows = with_pending(later, outcome(later, warehouse.accuracy()), warehouse)
    assert rows["predicted"].null_count() == rows["measured"].null_count() == 0
    assert rows["forecast_round"].to_list() == [1, 1, 1, 1]
    assert rows["error_percent"].null_count() == 4
    assert (summary(rows).n, opening_figures(rows).points.height) == (0, 0)
    for row in cells(study_sections.scenarios_section(rows, describe_round(later), None))[1:]:
        assert (row[4], row[-1]) == ("—", "for round 1"), "no error, as nothing judges it"
        assert "—" not in (row[1], row[3]), "both forecast and measured are shown"
    print_results(rows, "steps a second", "linear scaling")
    assert capsys.readouterr().out.count("forecast of round 1") == 4


def _accuracy_schema() -> dict[str, pl.DataType]:
    text = ("study", "backend", "host_id", "metric", "system", "scenario_id", "split")
    number = ("predicted", "low", "high", "measured", "error_percent", "spread_percent")
    return {
        **dict.fromkeys((*text, "prediction_id"), pl.String()),
        **dict.fromkeys((*number, "noise_floor_percent"), pl.Float64()),
        "repeat": pl.Int32(),
        "noise_runs": pl.Int64(),
        "host_busy": pl.Boolean(),
        "made_at": pl.Datetime("us", "UTC"),
    }
