"""Answers of `predict` as one record, whose JSON is its own."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from statistics import fmean
from types import SimpleNamespace
from typing import Annotated, Any, Self

from pydantic import AliasPath, BeforeValidator, Field

from forecasting.costs import samples_per_s
from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.forecast_history import NodeTypeChange
from forecasting.inputs import MissingRuns
from forecasting.standing import Standing, standing
from pipelines.cli.device_answer import efficiency
from warehouse.records import Backend, Record, Run, Scenario

VERSION = 1
"""Of what programs read; it grows when a key goes or means something else."""


def label(scenario: Scenario) -> str:
    """Return the label of a scenario, with the type of its workers where that lacks it."""
    text = scenario.label
    types = dict.fromkeys(group.node_type for group in scenario.worker_groups)
    return text if all(name in text for name in types) else f"{text} ({' + '.join(types)})"


def path(first: str, *rest: str | int, default: Any = ...) -> Any:
    """Return a field that has the value at a path of attributes, items and places.

    Args:
        first: attribute.
        rest: of the path.
        default: where nothing is there.
    """
    return Field(default, validation_alias=AliasPath(first, *rest))


class Row(Record, from_attributes=True, json_schema_serialization_defaults_required=True):
    """A row of an answer, read of what forecasting has of it."""


def _hosts(runs: Iterable[Run]) -> tuple[str, ...]:
    return tuple(sorted({run.host_id for run in runs}))


Label = Annotated[str, BeforeValidator(label)]


_RECKONED = ("usd_per_hour", "usd_per_million_samples", "price_snapshot")


class NearestRow(Row):
    """A judged scenario near to one that is asked about; `error_percent` is signed."""

    scenario_id: str = path("neighbour", "scenario_id")
    scenario: str = path("neighbour", "label")
    distance: float
    error_percent: float = path("neighbour", "error")
    split: str = path("neighbour", "split")


class ForecastRow(Standing, from_attributes=True, json_schema_serialization_defaults_required=True):
    """A forecast: its figures, what it stands on, and how wrong such ones have been.

    `epoch_s` has the seconds of an epoch, at least and at most.
    """

    scenario_id: str = path("scenario", "scenario_id")
    scenario: Label
    system: str = path("system", "name")
    model_version: str = path("system", "version")
    metric: str = path("metric", "name")
    unit: str = path("metric", "unit")
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
    fit_id: str = path("fit", "fit_id")
    fitted_at: datetime = path("fit", "fitted_at")
    runs: Annotated[int, BeforeValidator(len)] = path("fit", "runs")
    hosts: Annotated[tuple[str, ...], BeforeValidator(_hosts)] = path("fit", "runs")
    oldest_run_at: datetime = path("fit", "runs", -1, "started_at")
    newest_run_at: datetime = path("fit", "runs", 0, "started_at")
    split: str
    past_mape_percent: float | None = path("past", "mape", default=None)
    past_n: int = path("past", "n", default=0)
    noise_floor_percent: float | None = path("past", "noise_floor", default=None)
    noise_n: int = path("past", "noise_n", default=0)
    nearest: tuple[NearestRow, ...]
    nearest_mape_percent: float | None
    nearest_inside: int
    nearest_intervals: int
    far_out: str | None = path("far")
    corrected_by: str | None
    changed_since: tuple[NodeTypeChange, ...] = path("changed")

    @classmethod
    def of(cls, forecast: ScenarioForecast, dataset_samples: int | None = None) -> Self:
        """Return the row of a forecast, with the time of an epoch of so many samples."""
        near = [neighbour for neighbour, _ in forecast.nearest]
        reckoned = {
            **standing(forecast).model_dump(),
            **efficiency(forecast),
            "answered_by": forecast.answered_by or forecast.system.name,
            "epoch_s": None if dataset_samples is None else epoch_s(forecast, dataset_samples),
            **{name: getattr(forecast, name) for name in _RECKONED},
            "nearest": [
                SimpleNamespace(neighbour=neighbour, distance=distance)
                for neighbour, distance in forecast.nearest
            ],
            "nearest_mape_percent": fmean(each.size for each in near) if near else None,
            "nearest_inside": sum(each.inside for each in near),
            "nearest_intervals": sum(each.intervals for each in near),
        }
        return cls.model_validate(SimpleNamespace(**vars(forecast) | reckoned))


class RefusalRow(Row):
    """Why a system forecasts nothing of a scenario, and what it lacks."""

    scenario_id: str = path("scenario", "scenario_id")
    scenario: Label
    system: str = path("system", "name")
    reason: str
    foreign: bool
    lacking: tuple[MissingRuns, ...]


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
            refused=tuple(map(RefusalRow.model_validate, answer.refused)),
            written=answer.written,
        )


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
