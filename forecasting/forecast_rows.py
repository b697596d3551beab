"""Forecasts as rows: those of a sweep's files, and of the frames that Python gets."""

from collections.abc import Mapping, Sequence
from datetime import date
from functools import cache
from typing import Any

import polars as pl

from forecasting.costs import nodes_by_type, prices_of, usd_per_hour, usd_per_million_samples
from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.scope import ForecastRefusal
from forecasting.standing import standing
from warehouse.records import Price, Scenario

SCHEMA: Mapping[str, Any] = {
    "scenario": pl.Int64,
    "scenario_id": pl.String,
    "dnn": pl.String,
    "framework": pl.String,
    "image_size": pl.Int64,
    "sequence_length": pl.Int64,
    "batch_size": pl.Int64,
    "precision": pl.String,
    "optimizer": pl.String,
    "accumulate": pl.Int64,
    "memory_format": pl.String,
    "compiled": pl.String,
    "strategy": pl.String,
    "node_type": pl.String,
    "nodes": pl.Int64,
    "devices_per_node": pl.Int64,
    "link_mbps": pl.Float64,
    "system": pl.String,
    "metric": pl.String,
    "value": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
    "samples_per_s": pl.Float64,
    "split": pl.String,
    "past_error_percent": pl.Float64,
    "past_n": pl.Int64,
    "past_error_of": pl.String,
    "stands_on": pl.String,
    "measure_command": pl.String,
    "binds": pl.String,
    "needed_gib": pl.Float64,
    "fits": pl.Boolean,
    "refusal": pl.String,
    "priced_on": pl.Date,
    "usd_per_hour": pl.Float64,
    "usd_per_million_samples": pl.Float64,
}
"""Columns of forecasts. Each scenario has a row for each system that forecasts it and each day of
prices; one that no system forecasts has one row, with `refusal`. `nodes` are workers."""
_OF_SWEEPS = ("scenario", "priced_on")


def forecast_frame(answer: ForecastAnswer) -> pl.DataFrame:
    """Return the forecasts of an answer at its prices, and the scenarios that have none."""
    rows = [row for some in rows_by_scenario(answer).values() for row in some]
    return pl.DataFrame(rows, schema=dict(SCHEMA), orient="row").drop(_OF_SWEEPS)


def rows_by_scenario(
    answer: ForecastAnswer, priced: Sequence[tuple[date, Sequence[Price]]] = ()
) -> dict[Scenario, list[dict[str, Any]]]:
    """Return the rows of each scenario of an answer, in the order of systems and days.

    Args:
        answer: to a question.
        priced: days, and what nodes cost on them; none: the prices of the answer.
    """
    usd: dict[tuple[date, frozenset[tuple[str, int]]], float | None] = {}

    def usd_of(scenario: Scenario, day: date, prices: Sequence[Price]) -> float | None:
        key = day, frozenset(nodes_by_type(scenario).items())
        if key not in usd:
            usd[key] = usd_per_hour(scenario, prices_of(scenario, prices))
        return usd[key]

    about = cache(_about)
    rows: dict[Scenario, list[dict[str, Any]]] = {}
    once = {(each.scenario, each.system.name): each for each in answer.forecasts}
    for forecast in once.values():
        scenario = forecast.scenario
        row = about(scenario) | _forecast_fields(forecast)
        days: list[tuple[date | None, float | None]] = [
            (day, usd_of(scenario, day, prices)) for day, prices in priced
        ] or [(None, forecast.usd_per_hour)]
        rows.setdefault(scenario, []).extend(
            row | {"priced_on": day} | _cost(forecast, each) for day, each in days
        )
    refusals: dict[Scenario, list[ForecastRefusal]] = {}
    for refusal in answer.refused:
        refusals.setdefault(refusal.scenario, []).append(refusal)
    for scenario, some in refusals.items():
        if scenario not in rows:
            # What concerns it, else that it concerns nobody.
            shown = [refusal for refusal in some if not refusal.foreign] or some
            why = "; ".join(refusal.in_words for refusal in shown)
            rows[scenario] = [{**about(scenario), "refusal": why}]
    return rows


def _about(scenario: Scenario) -> dict[str, Any]:
    return {
        "scenario_id": scenario.scenario_id,
        **scenario.workload.model_dump(include=set(SCHEMA)),
        "strategy": scenario.strategy.kind,
        "node_type": " + ".join(group.node_type for group in scenario.worker_groups),
        "nodes": scenario.strategy.workers,
        "devices_per_node": scenario.strategy.devices_per_node,
        "link_mbps": scenario.link_mbps,
    }


def _forecast_fields(forecast: ScenarioForecast) -> dict[str, Any]:
    """Return what a forecast says, and how wrong such ones were."""
    detail, stands = forecast.detail or {}, standing(forecast)
    needed_bytes = detail.get("needed_bytes")
    return {
        "system": forecast.system.name,
        "metric": forecast.metric.name,
        "value": forecast.value,
        "low": forecast.low,
        "high": forecast.high,
        "samples_per_s": forecast.samples_per_s,
        "split": forecast.split,
        "past_error_percent": stands.past_error_percent,
        "past_n": stands.past_error_n,
        "past_error_of": stands.past_error_of,
        "stands_on": stands.stands_on,
        "measure_command": stands.measure_command,
        "binds": detail.get("binds"),
        "needed_gib": None if needed_bytes is None else needed_bytes / 2**30,
        "fits": detail.get("fits"),
        "refusal": forecast.unknown,
    }


def _cost(forecast: ScenarioForecast, usd: float | None) -> dict[str, float | None]:
    per_million, metric = None, forecast.metric.name
    if usd is not None and forecast.value is not None:
        per_million = usd_per_million_samples(forecast.scenario, metric, forecast.value, usd)
    return {"usd_per_hour": usd, "usd_per_million_samples": per_million}
