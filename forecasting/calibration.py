"""Forecasts corrected by measured steps: what these took longer than forecast, all take longer.

The correction is on the computing part: of the same network, batch and nodes every step has the
same passes, whatever the number of workers. So the seconds by which the measured step differs from
its forecast are added to the forecasts of as many workers or more. docs/predict.md has how much
that helps across days, and what was tried instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from forecasting.forecast import (
    ForecastAnswer,
    Say,
    ScenarioForecast,
    predict_curves,
    write_forecasts,
)
from forecasting.history_scope import HostSelection
from forecasting.scope import ForecastRefusal
from models.system import System
from profilers.probe import THROUGHPUT
from studies.curve import Curve
from warehouse.home import code_version
from warehouse.ledger import FitRecord
from warehouse.records import Backend, BadInput, Record, Scenario, content_hash
from warehouse.warehouse import Warehouse

# Measured steps that correct forecasts: of what, by how much, and whether they tell anything.


@dataclass(frozen=True)
class MeasuredStep:
    """A step that somebody measured.

    Attributes:
        scenario: what trained.
        step_s: seconds of a step of each worker.
        run_id: the run that measured it, which fits may see; None: the user has the number.
    """

    scenario: Scenario
    step_s: float
    run_id: str | None = None


@dataclass(frozen=True)
class MeasuredSteps:
    """Seconds of a worker's step, by curves of one scenario; and the runs that measured them."""

    of: dict[Curve, float] = field(default_factory=dict)
    run_ids: dict[Curve, str] = field(default_factory=dict)


def check_calibrates(steps: MeasuredSteps, curves: Sequence[Curve]) -> None:
    """Refuse a measured step that corrects no forecast.

    Args:
        steps: that were measured.
        curves: what is asked about.

    Raises:
        BadInput: one of them trains something else, elsewhere, or with more workers.
    """
    scenarios = [scenario for curve in curves for scenario in _anywhere(curve)]
    for step in (_anywhere(curve)[0] for curve in steps.of):
        if not any(step_covers(step, scenario) for scenario in scenarios):
            raise BadInput(
                f"a measured step of {step.label} corrects no forecast: expected the network, "
                "images, batch, node types and devices that are asked about, and no more workers"
            )


def contains_scenario(curve: Curve, other: Curve) -> bool:
    """Tell whether a curve has the one scenario of another, on whatever backend."""
    return _anywhere(other)[0] in _anywhere(curve)


def _anywhere(curve: Curve) -> Sequence[Scenario]:
    return curve.scenarios("loopback")


def find_calibration_step(
    measured: Sequence[MeasuredStep], scenario: Scenario
) -> MeasuredStep | None:
    """Return the step that tells of a scenario, of several that of most workers."""
    steps = [step for step in measured if step_covers(step.scenario, scenario)]
    return max(steps, key=lambda step: step.scenario.strategy.workers, default=None)


def step_covers(measured: Scenario, other: Scenario) -> bool:
    """Tell whether a measured step says how long the passes of a scenario take.

    The network, its images and batch, the nodes and the devices of each are the same, and the
    scenario has as many workers or more: with more workers than it, the measured step waited for
    exchanges that the other has not.
    """
    strategy, other_strategy = measured.strategy, other.strategy
    return (
        measured.workload == other.workload
        and (strategy.kind, strategy.devices_per_node)
        == (other_strategy.kind, other_strategy.devices_per_node)
        and {worker_group.one for worker_group in measured.worker_groups}
        == {worker_group.one for worker_group in other.worker_groups}
        and strategy.workers <= other_strategy.workers
    )


def worker_step_s(scenario: Scenario, metric: str, value: float) -> float:
    """Return how long a worker's step takes: of steps a second of all workers, each has a part."""
    return scenario.strategy.workers / value if metric == THROUGHPUT.name else value


def shift_step_s(forecast_s: float, anchor_s: float, measured_s: float) -> float:
    """Return a step corrected by another, seconds: as much longer, or shorter by its part at most.

    Args:
        forecast_s: the step that is corrected.
        anchor_s: the forecast of the measured step.
        measured_s: the measured step.
    """
    least = forecast_s * min(1.0, measured_s / anchor_s)
    return max(forecast_s + measured_s - anchor_s, least)


SUFFIX = "_calibrated"
"""What names of corrected systems end with."""


class CalibrationParameters(Record):
    """What a corrected forecast rests on.

    Attributes:
        fit_id: the fit of the forecast that is corrected.
        measured: the canonical JSON of the scenario that was measured.
        label: its short name.
        measured_s: seconds of its step, as measured.
        forecast_s: the same, as forecast.
        run_id: the run that measured it; None: the user said so.
    """

    fit_id: str
    measured: str
    label: str
    measured_s: float
    forecast_s: float
    run_id: str | None

    @property
    def in_words(self) -> str:
        """What was measured, and what had been forecast."""
        return f"{self.label}: {self.measured_s:.4g} s measured, {self.forecast_s:.4g} s forecast"


def predict_corrected(
    warehouse: Warehouse,
    curves: Sequence[Curve],
    systems: Sequence[System],
    steps: MeasuredSteps,
    *,
    backend: Backend | None = None,
    host: str | None = None,
    dry_run: bool = False,
    far_out: bool = True,
    say: Say = lambda _: None,
) -> ForecastAnswer:
    """Forecast as `predict_curves` does, with a corrected forecast after each that can be.

    Args:
        warehouse: the history.
        curves: what is asked about.
        systems: that are asked.
        steps: that were measured.
        backend: as in `predict_curves`.
        host: as there.
        dry_run: as there.
        far_out: as there.
        say: as there.

    Raises:
        BadInput: as `predict_curves`; a step corrects nothing that is asked about.
    """
    check_calibrates(steps, curves)
    more = [
        step for step in steps.of if not any(contains_scenario(curve, step) for curve in curves)
    ]
    answer = predict_curves(
        warehouse,
        [*curves, *more],
        systems,
        backend=backend,
        host=host,
        dry_run=dry_run,
        far_out=far_out,
        say=say,
    )
    place = answer.place
    measured = [
        MeasuredStep(curve.scenarios(place.backend)[0], step_s, steps.run_ids.get(curve))
        for curve, step_s in steps.of.items()
    ]
    corrected = correct_forecasts(answer.forecasts, measured, place)
    scenarios = {scenario for curve in curves for scenario in curve.scenarios(place.backend)}
    of = {
        (forecast.system.name, forecast.scenario): forecast
        for forecast in corrected
        if forecast.scenario in scenarios
    }
    shown = [
        each
        for forecast in answer.forecasts
        if forecast.scenario in scenarios
        for each in (forecast, of.get((forecast.system.name + SUFFIX, forecast.scenario)))
        if each is not None
    ]
    refused = [*answer.refused, *explain_uncorrected(answer, measured)]
    return ForecastAnswer(
        place,
        tuple(shown),
        tuple(refusal for refusal in refused if refusal.scenario in scenarios),
        answer.written + (0 if dry_run else write_forecasts(tuple(of.values()), place, warehouse)),
    )


def correct_forecasts(
    forecasts: Sequence[ScenarioForecast], measured: Sequence[MeasuredStep], place: HostSelection
) -> tuple[ScenarioForecast, ...]:
    """Return corrected forecasts, one for each forecast that a measured step tells something of.

    Args:
        forecasts: by all systems, those of the measured scenarios among them.
        measured: what was measured; of several that tell of a forecast, the most workers count.
        place: whose nodes these are.
    """
    of = {(forecast.system.name, forecast.scenario): forecast for forecast in forecasts}
    corrected = []
    for forecast in forecasts:
        if (step := find_calibration_step(measured, forecast.scenario)) is None:
            continue
        anchor = of.get((forecast.system.name, step.scenario))
        if anchor is not None and anchor.value and forecast.value:
            corrected.append(_corrected(forecast, anchor, step, place))
    return tuple(corrected)


def explain_uncorrected(
    answer: ForecastAnswer, measured: Sequence[MeasuredStep]
) -> Iterator[ForecastRefusal]:
    """Yield why forecasts stay as they are: their systems do not forecast the measured step.

    Args:
        answer: about what is asked and what was measured.
        measured: what was measured.
    """
    why = {(refusal.system.name, refusal.scenario): refusal.reason for refusal in answer.refused}
    why |= {
        (forecast.system.name, forecast.scenario): forecast.unknown or ""
        for forecast in answer.forecasts
    }
    known = {
        (forecast.system.name, forecast.scenario) for forecast in answer.forecasts if forecast.value
    }
    for forecast in answer.forecasts:
        step = find_calibration_step(measured, forecast.scenario)
        if step is None or not forecast.value or (forecast.system.name, step.scenario) in known:
            continue
        reason = why[forecast.system.name, step.scenario]
        explanation = (
            f"{forecast.system.name} does not forecast the measured {step.scenario.label}: {reason}"
        )
        yield ForecastRefusal(forecast.scenario, _system(forecast.system), explanation)


def _corrected(
    forecast: ScenarioForecast, anchor: ScenarioForecast, step: MeasuredStep, place: HostSelection
) -> ScenarioForecast:
    assert anchor.value and forecast.value
    metric = forecast.metric.name
    forecast_s = worker_step_s(forecast.scenario, metric, forecast.value)
    anchor_s = worker_step_s(anchor.scenario, metric, anchor.value)
    factor = shift_step_s(forecast_s, anchor_s, step.step_s) / forecast_s
    factor = 1 / factor if metric == THROUGHPUT.name else factor
    parameters = CalibrationParameters(
        fit_id=forecast.fit.fit_id,
        measured=step.scenario.canonical_json(),
        label=step.scenario.label,
        measured_s=step.step_s,
        forecast_s=anchor_s,
        run_id=step.run_id,
    )
    system = _system(forecast.system)
    record = _record(forecast, system, parameters, place)
    fit = replace(forecast.fit, fit_id=record.fit_id, fitted_at=record.created_at, record=record)
    return replace(
        forecast,
        system=system,
        value=forecast.value * factor,
        low=None if forecast.low is None else forecast.low * factor,
        high=None if forecast.high is None else forecast.high * factor,
        fit=fit,
        past=None,
        is_new=True,
        corrected_by=parameters.in_words,
    )


def _system(of: System) -> System:
    return replace(
        of,
        name=of.name + SUFFIX,
        what=f"{of.name}, corrected by one measured step.",
        source="ours",
        version=f"{of.version}+1",
    )


def _record(
    forecast: ScenarioForecast,
    system: System,
    parameters: CalibrationParameters,
    place: HostSelection,
) -> FitRecord:
    """Return what the ledger keeps: the fit that is corrected, and what it was corrected with."""
    run_ids = [run.run_id for run in reversed(forecast.fit.runs)]
    run_ids += [parameters.run_id] if parameters.run_id else []
    return FitRecord(
        system=system.name,
        model_version=system.version,
        parameters=parameters.model_dump(),
        run_ids=tuple(dict.fromkeys(run_ids)),
        row_filter=f"rows of fit {parameters.fit_id}, and a measured step",
        row_count=1,
        data_hash=content_hash(parameters.canonical_json()),
        backend=place.backend,
        host_id=place.host_id,
        code_version=code_version(),
        created_at=datetime.now(UTC),
    )
