"""What counts as judged: the newest forecast of a scenario of this round, on a host not busy."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from forecasting.evaluation import (
    SCHEMA,
    judged_forecasts,
    merge_pending,
    opening_figures,
    with_time_made,
)
from forecasting.inputs import systems_of
from forecasting.results import latest_forecasts, outcome
from studies.rounds import Round
from studies.study import read_study
from tests.forecasting.test_results import judged
from tests.synthetic import HOST, opened

START = datetime(2030, 1, 1, tzinfo=UTC)


def row_of(round_: Round) -> dict[str, object]:
    """Return a row of report.accuracy, of the second scenario of a round's first curve."""
    return {
        "system": "ours",
        "scenario_id": round_.study.curves[0].scenarios(round_.backend)[1].scenario_id,
        "study": round_.study.name,
        "repeat": round_.repeat,
        "backend": round_.backend,
        "host_id": round_.host_id,
        "metric": round_.study.metric.name,
        "predicted": 2.0,
        "measured": 1.0,
        "error_percent": 100.0,
        "noise_floor_percent": None,
        "fit_id": "fit-1",
        "host_busy": False,
        "made_at": START,
    }


def test_the_newest_forecast_of_this_round_counts(round_: Round) -> None:
    scenario, row = round_.study.curves[0].scenarios(round_.backend)[1], row_of(round_)
    newer = {**row, "predicted": 1.5, "error_percent": 50.0, "made_at": START + timedelta(hours=1)}
    others = [
        {**newer, "system": "busy", "host_busy": True},
        {**newer, "system": "unsaid", "predicted": None, "error_percent": None},
        {**newer, "system": "elsewhere", "host_id": "another"},
        {**newer, "system": "later", "repeat": round_.repeat + 1},
    ]
    table = judged_forecasts(round_, pl.DataFrame([newer, row, *others], infer_schema_length=None))
    assert table.schema == pl.Schema(SCHEMA)
    workload, workers = scenario.workload, scenario.strategy.workers
    expected = ("ours", scenario.scenario_id, workload.dnn, workers, 1.5, 1.0, 50.0, None, "fit-1")
    assert table.rows() == [expected]


def test_systems_of_other_studies_count_where_they_forecast_the_same(round_: Round) -> None:
    row = {**row_of(round_), "system": "theirs", "study": "another", "repeat": 3}
    others = [
        {**row, "system": systems_of(round_.study)[0].name},
        {**row, "system": "about others", "scenario_id": "0" * 16},
        {**row, "system": "elsewhere", "host_id": "another"},
        {**row, "system": "asked for", "study": None},
    ]
    table = judged_forecasts(round_, pl.DataFrame([row, *others], infer_schema_length=None))
    assert table["system"].to_list() == ["theirs"]


def rows(*given_rows: tuple[int, float | None, bool, str | None]) -> pl.DataFrame:
    """Return rows: workers, error_percent, host_busy, made; measured is always 100."""
    names = ["workers", "error_percent", "host_busy", "made"]
    frame = pl.DataFrame(given_rows, schema=names, orient="row")
    predicted = 100 + pl.col("error_percent")
    return frame.with_columns(
        system=pl.lit("srift"),
        dnn=pl.lit("vgg11"),
        measured=pl.lit(100.0),
        low=predicted - 5,
        high=predicted + 5,
        linear_error_percent=pl.lit(50.0),
    )


def test_one_worker_and_busy_hosts_do_not_count() -> None:
    figures = opening_figures(
        rows(
            (1, 90.0, False, "sealed"),
            (2, -4.0, False, "sealed"),
            (2, 6.0, False, "before"),
            (4, 80.0, True, "after"),
            (8, None, False, None),
        )
    )
    assert (figures.sealed, figures.before, figures.after) == (1, 1, 0)
    assert figures.nine_of_ten == pytest.approx(4 + 0.9 * 2)
    assert (figures.inside, figures.inside_n) == (1, 2)
    assert figures.systems == ("srift",)
    assert figures.points["workers"].to_list() == [1, 2, 2, 4]


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
    rounds = {row["predicted"]: row["forecast_round"] for row in rows.to_dicts()}
    assert rounds == {6.0: 2, 8.0: 1}
    assert rows["linear"].drop_nulls().to_list() == [9.0]


def test_a_scenario_without_verdict_shows_what_is_known(second: Round) -> None:
    """W=1 was measured and forecast a round earlier, W=2 only forecast, alexnet neither."""
    nothing = outcome(second, judged(second, {0: 1.0}).clear())
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
