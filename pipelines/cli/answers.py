"""Answers of `predict` as one record, whose JSON is its own."""

from collections.abc import Mapping
from datetime import datetime
from statistics import fmean
from typing import Any, Self

from forecasting.costs import samples_per_s
from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.forecast_history import NodeTypeChange
from forecasting.inputs import MissingRuns
from forecasting.scope import ForecastRefusal
from forecasting.standing import Standing, standing
from pipelines.cli.device_answer import efficiency
from warehouse.records import Backend, Record

VERSION = 1
"""Of what programs read; it grows when a key goes or means something else."""
_SAME = (
    *("value", "low", "high", "unknown", "detail", "split", "corrected_by"),
    *("usd_per_hour", "usd_per_million_samples", "price_snapshot"),
)
"""As the forecast has them."""


class NearestRow(Record):
    """A judged scenario near to one that is asked about; `error_percent` is signed."""

    scenario_id: str
    scenario: str
    distance: float
    error_percent: float
    split: str


class ForecastRow(Standing):
    """A forecast: its figures, what it stands on, and how wrong such ones have been.

    `epoch_s` has the seconds of an epoch, at least and at most.
    """

    scenario_id: str
    scenario: str
    system: str
    model_version: str
    metric: str
    unit: str
    value: float | None
    low: float | None
    high: float | None
    unknown: str | None
    detail: Mapping[str, Any] | None
    answered_by: str
    epoch_s: tuple[float, float | None, float | None] | None
    usd_per_hour: float | None
    usd_per_million_samples: float | None
    usd_per_million_tokens: float | None
    tflop_per_s: float | None
    mfu: float | None
    price_snapshot: str | None
    fit_id: str
    fitted_at: datetime
    runs: int
    hosts: tuple[str, ...]
    oldest_run_at: datetime
    newest_run_at: datetime
    split: str
    past_mape_percent: float | None
    past_n: int
    noise_floor_percent: float | None
    noise_n: int
    nearest: tuple[NearestRow, ...]
    nearest_mape_percent: float | None
    nearest_inside: int
    nearest_intervals: int
    far_out: str | None
    corrected_by: str | None
    changed_since: tuple[NodeTypeChange, ...]

    @classmethod
    def of(cls, forecast: ScenarioForecast, dataset_samples: int | None = None) -> Self:
        """Return the row of a forecast, with the time of an epoch of so many samples."""
        past, fit = forecast.past or {}, forecast.fit
        near = [neighbour for neighbour, _ in forecast.nearest]
        return cls(
            **standing(forecast).model_dump(),
            scenario_id=forecast.scenario.scenario_id,
            scenario=label(forecast),
            system=forecast.system.name,
            model_version=forecast.system.version,
            metric=forecast.metric.name,
            unit=forecast.metric.unit,
            **{name: getattr(forecast, name) for name in _SAME},
            answered_by=forecast.answered_by or forecast.system.name,
            epoch_s=None if dataset_samples is None else epoch_s(forecast, dataset_samples),
            **efficiency(forecast),
            fit_id=fit.fit_id,
            fitted_at=fit.fitted_at,
            runs=len(fit.runs),
            hosts=tuple(sorted({run.host_id for run in fit.runs})),
            oldest_run_at=fit.runs[-1].started_at,
            newest_run_at=fit.runs[0].started_at,
            past_mape_percent=past.get("mape"),
            past_n=past.get("n", 0),
            noise_floor_percent=past.get("noise_floor"),
            noise_n=past.get("noise_n", 0),
            nearest=tuple(
                NearestRow(
                    scenario_id=neighbour.scenario_id,
                    scenario=neighbour.label,
                    distance=distance,
                    error_percent=neighbour.error,
                    split=neighbour.split,
                )
                for neighbour, distance in forecast.nearest
            ),
            nearest_mape_percent=fmean(each.size for each in near) if near else None,
            nearest_inside=sum(each.inside for each in near),
            nearest_intervals=sum(each.intervals for each in near),
            far_out=forecast.far,
            changed_since=forecast.changed,
        )


class RefusalRow(Record):
    """Why a system forecasts nothing of a scenario, and what it lacks."""

    scenario_id: str
    scenario: str
    system: str
    reason: str
    foreign: bool
    lacking: tuple[MissingRuns, ...]

    @classmethod
    def of(cls, refusal: ForecastRefusal) -> Self:
        """Return the row of a refusal."""
        return cls(
            scenario_id=refusal.scenario.scenario_id,
            scenario=label(refusal),
            system=refusal.system.name,
            reason=refusal.reason,
            foreign=refusal.foreign,
            lacking=refusal.lacking,
        )


class PredictAnswer(Record):
    """What all systems say; `model` is the user's own that was asked about."""

    version: int = VERSION
    model: Mapping[str, Any] | None
    backend: Backend
    host_id: str
    this_host: bool
    forecasts: tuple[ForecastRow, ...]
    refused: tuple[RefusalRow, ...]
    written: int

    @classmethod
    def of(
        cls, answer: ForecastAnswer, model: Mapping[str, Any] | None, dataset_samples: int | None
    ) -> Self:
        """Return an answer for programs."""
        return cls(
            model=model,
            backend=answer.chosen_host.backend,
            host_id=answer.chosen_host.host_id,
            this_host=answer.chosen_host.is_here,
            forecasts=tuple(ForecastRow.of(each, dataset_samples) for each in answer.forecasts),
            refused=tuple(map(RefusalRow.of, answer.refused)),
            written=answer.written,
        )


def label(forecast: ScenarioForecast | ForecastRefusal) -> str:
    """Return the label of a scenario, with the type of its workers where that lacks it."""
    text = forecast.scenario.label
    types = dict.fromkeys(group.node_type for group in forecast.scenario.worker_groups)
    return text if all(name in text for name in types) else f"{text} ({' + '.join(types)})"


def epoch_s(
    forecast: ScenarioForecast, samples: int
) -> tuple[float, float | None, float | None] | None:
    """Return the seconds of an epoch as forecast, at least and at most; None if none is forecast.

    Args:
        forecast: of the time of a step, or of steps a second.
        samples: of the epoch.
    """

    def seconds(value: float | None) -> float | None:
        if value is None or not value > 0:
            return None
        speed = samples_per_s(forecast.scenario, forecast.metric.name, value)
        return None if speed is None else samples / speed

    value, low, high = map(seconds, (forecast.value, forecast.low, forecast.high))
    if value is None:
        return None
    if low is None or high is None:
        return value, None, None
    return value, min(low, high), max(low, high)
