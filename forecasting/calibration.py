"""Forecasts corrected by a measured step: what it took longer than forecast, all take longer.

The correction is on the computing part: of the same network, batch and nodes every step has the
same passes, whatever the number of workers. So the seconds by which the measured step differs from
its forecast are added to the forecasts of as many workers or more. docs/predict.md has how much
that helps across days, and what was tried instead.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from pydantic import JsonValue

from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.forecast_history import write_forecasts
from forecasting.history_scope import HostSelection
from forecasting.scope import ForecastRefusal
from models.system import System
from profilers.probe import THROUGHPUT
from studies.curve import Curve
from warehouse.chain import canonical
from warehouse.home import code_version
from warehouse.ledger import FitRecord
from warehouse.records import BadInput, Scenario, content_hash
from warehouse.warehouse import Warehouse

MeasuredStep = tuple[Curve, float]
"""A step that somebody measured: a curve of one scenario, and seconds of a worker's step."""


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


def shift_step_s(forecast_s: float, anchor_s: float, measured_s: float) -> float:
    """Return a step corrected by another, seconds: as much longer, or shorter by its part at most.

    Args:
        forecast_s: the step that is corrected.
        anchor_s: the forecast of the measured step.
        measured_s: the measured step.
    """
    least = forecast_s * min(1.0, measured_s / anchor_s)
    return max(forecast_s + measured_s - anchor_s, least)


def with_measured(curves: Sequence[Curve], step: MeasuredStep) -> list[Curve]:
    """Return what is asked about, and the curve that was measured.

    Raises:
        BadInput: the step corrects nothing that is asked about.
    """
    about = [each for curve in curves for each in curve.scenarios("loopback")]
    (measured,) = step[0].scenarios("loopback")
    if not any(step_covers(measured, scenario) for scenario in about):
        raise BadInput(
            f"a measured step of {measured.label} corrects no forecast: expected the network, "
            "images, batch, node types and devices that are asked about, and no more workers"
        )
    return [*curves, *([] if measured in about else [step[0]])]


def corrected(
    answer: ForecastAnswer, curves: Sequence[Curve], step: MeasuredStep
) -> ForecastAnswer:
    """Return an answer about `with_measured` curves with a corrected forecast after each that can.

    Nothing of it is written yet: `write_corrected` does.
    """
    curve, step_s = step
    host = answer.chosen_host
    (measured,) = curve.scenarios(host.backend)
    scenarios = {scenario for curve in curves for scenario in curve.scenarios(host.backend)}
    anchors = {each.system.name: each for each in answer.forecasts if each.scenario == measured}
    why = {each.system.name: each.reason for each in answer.refused if each.scenario == measured}
    shown: list[ScenarioForecast] = []
    refused = [refusal for refusal in answer.refused if refusal.scenario in scenarios]
    for forecast in (each for each in answer.forecasts if each.scenario in scenarios):
        shown.append(forecast)
        if forecast.value is None or not step_covers(measured, forecast.scenario):
            continue
        anchor, name = anchors.get(forecast.system.name), forecast.system.name
        if anchor is not None and anchor.value:
            shown.append(_corrected(forecast, anchor, step_s, host))
            continue
        reason = why[name] if anchor is None else anchor.unknown
        explanation = f"{name} does not forecast the measured {measured.label}: {reason}"
        refused.append(ForecastRefusal(forecast.scenario, _system(forecast.system), explanation))
    return replace(answer, forecasts=tuple(shown), refused=tuple(refused))


def write_corrected(answer: ForecastAnswer, warehouse: Warehouse) -> ForecastAnswer:
    """Write corrected forecasts to the ledger, and return the answer with how many are new."""
    new = [forecast for forecast in answer.forecasts if forecast.corrected_by is not None]
    written = write_forecasts(new, answer.chosen_host, warehouse)
    return replace(answer, written=answer.written + written)


def _corrected(
    forecast: ScenarioForecast,
    anchor: ScenarioForecast,
    measured_s: float,
    chosen_host: HostSelection,
) -> ScenarioForecast:
    assert anchor.value and forecast.value
    forecast_s, anchor_s = _step_s(forecast), _step_s(anchor)
    factor = shift_step_s(forecast_s, anchor_s, measured_s) / forecast_s
    factor = 1 / factor if forecast.metric.name == THROUGHPUT.name else factor
    label, fit_id = anchor.scenario.label, forecast.fit.fit_id
    parameters: dict[str, JsonValue] = {
        "fit_id": fit_id,
        "measured": anchor.scenario.canonical_json(),
        "label": label,
        "measured_s": measured_s,
        "forecast_s": anchor_s,
    }
    system = _system(forecast.system)
    record = FitRecord(
        system=system.name,
        model_version=system.version,
        parameters=parameters,
        run_ids=forecast.fit.group.run_ids,
        row_filter=f"rows of fit {fit_id}, and a measured step",
        row_count=1,
        data_hash=content_hash(canonical(parameters)),
        backend=chosen_host.backend,
        host_id=chosen_host.host_id,
        code_version=code_version(),
        created_at=datetime.now(UTC),
    )
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
        corrected_by=f"{label}: {measured_s:.4g} s measured, {anchor_s:.4g} s forecast",
    )


def _step_s(forecast: ScenarioForecast) -> float:
    """Return how long a worker's step takes: of steps a second of all workers, each has a part."""
    assert forecast.value
    is_rate = forecast.metric.name == THROUGHPUT.name
    return forecast.scenario.strategy.workers / forecast.value if is_rate else forecast.value


def _system(of: System) -> System:
    return replace(
        of,
        name=f"{of.name}_calibrated",
        what=f"{of.name}, corrected by one measured step.",
        source="ours",
        version=f"{of.version}+1",
    )
