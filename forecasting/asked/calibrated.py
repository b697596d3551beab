"""Forecasts that are corrected by one measured step: what it took longer, they all take longer.

The correction is on the computing part: of the same network, batch and nodes every step has the
same passes, whatever the number of workers. So the seconds by which the measured step differs from
its forecast are added to the forecasts of as many workers or more. docs/predict.md has how much
that helps across days, and what was tried instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from forecasting.asked.answer import Answer, Forecast, Refused, Say, predict_asked
from forecasting.asked.place import Place
from forecasting.asked.steps import Measured, Steps, check_tells, has, seconds, shifted, telling
from forecasting.asked.writing import write
from models.system import System
from profilers.probe import THROUGHPUT
from studies.curve import Curve
from warehouse.ledger import FitRecord
from warehouse.records import Backend, Record, content_hash
from warehouse.version import code_version
from warehouse.warehouse import Warehouse

SUFFIX = "_calibrated"
"""What names of corrected systems end with."""


class Parameters(Record):
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
    steps: Steps,
    *,
    backend: Backend | None = None,
    host: str | None = None,
    dry_run: bool = False,
    far_out: bool = True,
    say: Say = lambda _: None,
) -> Answer:
    """Forecast as `predict_asked` does, with a corrected forecast after each that can be.

    Args:
        warehouse: the history.
        curves: what is asked about.
        systems: that are asked.
        steps: that were measured.
        backend: as in `predict_asked`.
        host: as there.
        dry_run: as there.
        far_out: as there.
        say: as there.

    Raises:
        BadInput: as `predict_asked`; a step corrects nothing that is asked about.
    """
    check_tells(steps, curves)
    more = [one for one in steps.of if not any(has(curve, one) for curve in curves)]
    answer = predict_asked(
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
        Measured(curve.scenarios(place.backend)[0], step_s, steps.run_ids.get(curve))
        for curve, step_s in steps.of.items()
    ]
    found = corrected(answer.forecasts, measured, place)
    asked = {scenario for curve in curves for scenario in curve.scenarios(place.backend)}
    of = {(one.system.name, one.scenario): one for one in found if one.scenario in asked}
    shown = [
        each
        for one in answer.forecasts
        if one.scenario in asked
        for each in (one, of.get((one.system.name + SUFFIX, one.scenario)))
        if each is not None
    ]
    refused = [*answer.refused, *uncorrected(answer, measured)]
    return Answer(
        place,
        tuple(shown),
        tuple(one for one in refused if one.scenario in asked),
        answer.written + (0 if dry_run else write(tuple(of.values()), place, warehouse)),
    )


def corrected(
    forecasts: Sequence[Forecast], measured: Sequence[Measured], place: Place
) -> tuple[Forecast, ...]:
    """Return corrected forecasts, one for each forecast that a measured step tells something of.

    Args:
        forecasts: by all systems, those of the measured scenarios among them.
        measured: what was measured; of several that tell of a forecast, the most workers count.
        place: whose nodes these are.
    """
    of = {(one.system.name, one.scenario): one for one in forecasts}
    found = []
    for one in forecasts:
        if (step := telling(measured, one.scenario)) is None:
            continue
        anchor = of.get((one.system.name, step.scenario))
        if anchor is not None and anchor.value and one.value:
            found.append(_corrected(one, anchor, step, place))
    return tuple(found)


def uncorrected(answer: Answer, measured: Sequence[Measured]) -> Iterator[Refused]:
    """Yield why forecasts stay as they are: their systems do not forecast the measured step.

    Args:
        answer: about what is asked and what was measured.
        measured: what was measured.
    """
    why = {(one.system.name, one.scenario): one.reason for one in answer.refused}
    why |= {(one.system.name, one.scenario): one.unknown or "" for one in answer.forecasts}
    known = {(one.system.name, one.scenario) for one in answer.forecasts if one.value}
    for one in answer.forecasts:
        step = telling(measured, one.scenario)
        if step is None or not one.value or (one.system.name, step.scenario) in known:
            continue
        reason = why[one.system.name, step.scenario]
        told = f"{one.system.name} does not forecast the measured {step.scenario.label}: {reason}"
        yield Refused(one.scenario, _system(one.system), told)


def _corrected(one: Forecast, anchor: Forecast, step: Measured, place: Place) -> Forecast:
    assert anchor.value and one.value
    metric = one.metric.name
    forecast_s = seconds(one.scenario, metric, one.value)
    anchor_s = seconds(anchor.scenario, metric, anchor.value)
    factor = shifted(forecast_s, anchor_s, step.step_s) / forecast_s
    factor = 1 / factor if metric == THROUGHPUT.name else factor
    parameters = Parameters(
        fit_id=one.fit.fit_id,
        measured=step.scenario.canonical_json(),
        label=step.scenario.label,
        measured_s=step.step_s,
        forecast_s=anchor_s,
        run_id=step.run_id,
    )
    system = _system(one.system)
    record = _record(one, system, parameters, place)
    fit = replace(one.fit, fit_id=record.fit_id, fitted_at=record.created_at, record=record)
    return replace(
        one,
        system=system,
        value=one.value * factor,
        low=None if one.low is None else one.low * factor,
        high=None if one.high is None else one.high * factor,
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


def _record(one: Forecast, system: System, parameters: Parameters, place: Place) -> FitRecord:
    """Return what the ledger keeps: the fit that is corrected, and what it was corrected with."""
    run_ids = [run.run_id for run in reversed(one.fit.runs)]
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
