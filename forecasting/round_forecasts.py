"""Forecasts of a study's round, in the ledger before anything that judges them is measured."""

from collections.abc import Sequence
from itertools import chain

import polars as pl

from forecasting.fit_plan import figures_of, match
from forecasting.fits import Fit, FitGroup, read_fits
from forecasting.forecast_history import metric_of, prediction_of
from forecasting.inputs import in_order, systems_of
from forecasting.scope import RoundScope
from models.system import NotCovered, System
from profilers.probes import PROBES
from studies.curve import Curve
from studies.messages import Progress, count, name_some
from studies.plan import fit_name, prediction_name
from studies.rounds import Round
from warehouse.records import BadInput, Prediction, Scenario
from warehouse.requirements import Refusal
from warehouse.warehouse import Warehouse

Asked = dict[Curve, list[Scenario]]
"""The scenarios of each judged curve that a system forecasts."""


def fit_round(
    system: System, round_: Round, warehouse: Warehouse, progress: Progress
) -> dict[Curve, Fit]:
    """Fit a system to the profile runs of each curve of a round; the ledger keeps it.

    Curves of which the system refuses all are left out, and, with a warning, those to which it
    cannot be fitted.

    Raises:
        BadInput: a curve has no profile in this round yet.
    """
    scope = RoundScope(round_, warehouse)
    asked, _ = _asked(system, scope)
    if asked:
        progress.say(fit_name(system.name))
    return _fit(system, asked, asked, scope, progress)


def fits_of_round(system: System, round_: Round, warehouse: Warehouse) -> dict[Curve, Fit]:
    """Return a system's fit of each judged curve of a round whose inputs have landed.

    What the ledger keeps is loaded; another fit is made, and not kept.
    """
    scope = RoundScope(round_, warehouse)
    asked, _ = _asked(system, scope)
    landed = [
        curve
        for curve in asked
        if all(map(round_.run_of, in_order(scope.input_runs(system, curve).values(), round_.needs)))
    ]
    fits = _fits_of(system, landed, scope)
    return {
        curve: fit
        for group, fit in fits.items()
        if isinstance(fit, Fit)
        for curve, _ in group.of
        if isinstance(curve, Curve)
    }


def _fits_of(
    system: System, curves: Sequence[Curve], scope: RoundScope
) -> dict[FitGroup, Fit | BadInput]:
    groups = match(curves, [system], scope).groups
    fitters = read_fits(groups, scope.backend, scope.host_id, scope.warehouse)
    return {group: fit(lambda _: None) for group, fit in fitters.items()}


def predict_round(round_: Round, warehouse: Warehouse, progress: Progress) -> None:
    """Write to the ledger what the systems of a study have not forecast for a round of it.

    The warehouse is opened once, so nobody may wait for it meanwhile, and is not published.
    """
    with warehouse.changing(publishes=False):
        scope = RoundScope(round_, warehouse)
        for system in systems_of(round_.study):
            predict_missing(system, round_, warehouse, progress, scope)


def predict_missing(
    system: System,
    round_: Round,
    warehouse: Warehouse,
    progress: Progress,
    scope: RoundScope | None = None,
) -> pl.DataFrame:
    """Write to the ledger what a system has not forecast for this round; return its ledger rows.

    A forecast that is there already is not made again, so an interrupted round keeps its own; but
    for one whose fit saw runs that do not serve any more (`Round.superseded`). What the system
    refuses is told with the reason, and so is what it cannot be fitted to.

    Raises:
        BadInput: a curve has no profile in this round yet.
    """
    scope = scope or RoundScope(round_, warehouse)
    asked, refused = _asked(system, scope)
    for reason, labels in refused.items():
        progress.warn(f"{system.name} does not predict {name_some(labels)}: {reason}")
    ledger = _ledger(system, round_, warehouse)
    known = set(ledger["subject_id"])
    missing = {
        curve: wanted
        for curve, scenarios in asked.items()
        if (wanted := [each for each in scenarios if each.scenario_id not in known])
    }
    fits = _fit(system, asked, missing, scope, progress)
    left = {curve: missing[curve] for curve in fits}
    if left:
        scenarios = list(chain(*left.values()))
        progress.say(f"predict {count(len(scenarios), 'scenario')} by {system.name}")
        system.prepare(scenarios)
    new: list[Prediction] = []
    for curve, scenarios in left.items():
        for scenario in scenarios:
            try:
                new.append(_predict(fits[curve], round_, scenario, progress))
            except NotCovered as error:
                progress.warn(f"{system.name} does not predict {scenario.label}: {error}")
    progress.finished(prediction_name(system.name))
    if not new:
        return ledger
    # Once for all curves: each change publishes the history anew.
    warehouse.record(new)
    return _ledger(system, round_, warehouse)


def check_predicted(round_: Round, ledger: pl.DataFrame) -> None:
    """Refuse to measure a scenario that no system has forecast.

    Args:
        round_: that is to be measured.
        ledger: study, repeat, backend, host_id, metric and subject_id of what was forecast.

    Raises:
        BadInput: the ledger lacks one; what is measured before it is predicted judges nothing.
    """
    columns = ["study", "repeat", "backend", "host_id", "metric", "subject_id"]
    predicted = set(ledger.select(columns).rows())
    key = (round_.study.name, round_.repeat, round_.backend, round_.host_id)
    for need in round_.missing:
        metric = PROBES[need.probe].metric
        if need.profiles or metric is None:
            continue
        if (*key, metric.name, need.scenario.scenario_id) not in predicted:
            raise BadInput(
                f"{need.title}: the ledger has no prediction of it for round {round_.repeat} of "
                f"{round_.study.name}, and what is measured before it is predicted judges nothing; "
                "if no chosen system could be fitted, choose another, or leave the scenario out"
            )


def _asked(system: System, scope: RoundScope) -> tuple[Asked, dict[str, list[str]]]:
    """Return what a system forecasts of a round; by reason, the labels of what it refuses."""
    asked: Asked = {}
    refused: dict[str, list[str]] = {}
    for curve in scope.round.study.curves:
        if not curve.is_judged:
            continue
        for scenario, rests in scope.input_runs(system, curve).items():
            if not isinstance(rests, Refusal):
                asked.setdefault(curve, []).append(scenario)
            elif not rests.foreign:
                refused.setdefault(rests.reason, []).append(scenario.label)
    return asked, refused


def _fit(
    system: System, asked: Asked, wanted: Asked, scope: RoundScope, progress: Progress
) -> dict[Curve, Fit]:
    """Return the fit of each wanted curve; a pooled one sees the runs of all that are asked for."""
    if not wanted:
        return {}
    round_, warehouse = scope.round, scope.warehouse
    fits = _fits_of(system, list(asked if system.pooled else wanted), scope)
    by_curve: dict[Curve, Fit] = {}
    for group, fit in fits.items():
        of_group = dict(group.of)
        curves = [curve for curve in wanted if curve in of_group]
        if isinstance(fit, Fit):
            by_curve |= dict.fromkeys(curves, fit)
            continue
        unfit = name_some([curve.profiled(round_.backend).label for curve in curves])
        progress.warn(f"{system.name} is left out for {unfit}: {fit}")
    made = {fit.fit_id: fit.record for fit in by_curve.values() if fit.record is not None}
    warehouse.record(fits=list(made.values()))
    return {curve: by_curve[curve] for curve in wanted if curve in by_curve}


def _predict(fit: Fit, round_: Round, scenario: Scenario, progress: Progress) -> Prediction:
    """Return a fit's forecast of a scenario; tell where that is no more than an interval."""
    system, study = fit.group.system, round_.study
    figures = figures_of(fit, scenario)
    value, low, high, unknown = figures
    if value is None:
        progress.warn(
            f"{system.name} only knows that {scenario.label} takes {low:.3g} to {high:.3g} "
            f"{metric_of(scenario).unit}: {unknown}"
        )
    return prediction_of(
        system,
        fit.fit_id,
        scenario,
        figures,
        backend=round_.backend,
        host_id=round_.host_id,
        study=study.name,
        repeat=round_.repeat,
    )


def _ledger(system: System, round_: Round, warehouse: Warehouse) -> pl.DataFrame:
    """Return a system's forecasts for a round, without those that saw what serves no more."""
    forecasts = warehouse.query(
        "predictions", study=round_.study.name, repeat=round_.repeat
    ).filter(
        pl.col("system") == system.name,
        pl.col("backend") == round_.backend,
        pl.col("host_id") == round_.host_id,
    )
    if not (superseded := list(round_.superseded)):
        return forecasts
    saw = warehouse.query("fit_inputs", fit_id=None, system=system.name)
    outdated = saw.filter(pl.col("run_id").is_in(superseded))["fit_id"]
    return forecasts.filter(~pl.col("fit_id").is_in(outdated.to_list()))
