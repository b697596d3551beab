"""What counts as judged: the newest forecast of a scenario of this round, on a host not busy."""

from datetime import UTC, datetime, timedelta

import polars as pl

from forecasting.findings.study import SCHEMA, judged_forecasts
from forecasting.inputs import systems_of
from studies.rounds import Round

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
    found = judged_forecasts(round_, pl.DataFrame([newer, row, *others], infer_schema_length=None))
    assert found.schema == pl.Schema(SCHEMA)
    workload, workers = scenario.workload, scenario.strategy.workers
    told = ("ours", scenario.scenario_id, workload.dnn, workers, 1.5, 1.0, 50.0, None, "fit-1")
    assert found.rows() == [told]


def test_systems_of_other_studies_count_where_they_forecast_the_same(round_: Round) -> None:
    row = {**row_of(round_), "system": "theirs", "study": "another", "repeat": 3}
    others = [
        {**row, "system": systems_of(round_.study)[0].name},
        {**row, "system": "about others", "scenario_id": "0" * 16},
        {**row, "system": "elsewhere", "host_id": "another"},
        {**row, "system": "asked for", "study": None},
    ]
    found = judged_forecasts(round_, pl.DataFrame([row, *others], infer_schema_length=None))
    assert found["system"].to_list() == ["theirs"]
