"""The one way from the history to a forecast: match runs, fit, predict; the ledger keeps it.

Studies ask it about the runs of a round (`forecasting.round_forecasts`); whoever asks about
scenarios that nobody measured, about all visible runs of a backend and host, and of systems that
know nodes by what they can do, where it has few steps, about other hosts' too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, cached_property, partial
from typing import Any, cast

from threadpoolctl import threadpool_limits

from forecasting.costs import prices_of, samples_per_s, usd_per_hour, usd_per_million_samples
from forecasting.fit_plan import Key, Plan, Say, figures_of, match
from forecasting.fits import Fit, FitGroup, Fitter, read_fits
from forecasting.forecast_history import (
    Figures,
    ForecastHistory,
    NodeTypeChange,
    metric_of,
    read_history,
    write_forecasts,
)
from forecasting.history_scope import HostSelection, VisibleRun, visible_runs
from forecasting.nearest import Nearest, far_links, find_nearest_cases
from forecasting.scope import Asked, ForecastRefusal, HistoryScope, NamelessScenario
from models.system import (
    FittedSystem,
    FittedWithDetail,
    FittedWithFallback,
    FittedWithObservations,
    System,
)
from networks import check
from networks.primitives import PrimitiveGraph
from profilers.clusters.node_types import looking_once
from profilers.probe import Metric
from studies.curve import Curve
from warehouse.ledger import FitRecord, price_snapshot
from warehouse.records import Backend, BadInput, Price, Scenario
from warehouse.warehouse import Warehouse

_SHOWN = "`stepcast predict --far-out` shows the number"


@dataclass(frozen=True)
class ScenarioForecast:
    """A system's forecast of a scenario, what it rests on, and how wrong such ones have been.

    `value` is None where the system knows no more than `low` and `high`: `unknown` says why.
    `past` is None where nothing has been judged that is as far from what its fit saw; `is_new`
    tells a forecast that was made now from one that the ledger has. `changed` are node types that
    are not any more what the profiles say that it rests on. `prices` are those of its nodes, None
    where a node type has none. `nearest` are judged scenarios, `far` says why all are far from it.
    `past` is a row of query leaderboard.
    `corrected_by` is the measured step that corrected it; None: it is the system's own.
    `answered_by` is whose forecast the system gave where its own would be worse; None: its own.
    `detail` is what a forecast consists of, of systems that tell.
    """

    scenario: Scenario
    system: System
    metric: Metric
    value: float | None
    low: float | None
    high: float | None
    unknown: str | None
    fit: Fit
    split: str
    past: Mapping[str, Any] | None
    nearest: Nearest
    far: str | None
    is_new: bool
    changed: tuple[NodeTypeChange, ...] = ()
    prices: tuple[Price, ...] | None = None
    corrected_by: str | None = None
    answered_by: str | None = None
    detail: Mapping[str, Any] | None = None

    @property
    def fits_memory(self) -> bool:
        """Whether a step fits into memory, as far as the system tells."""
        return self.detail is None or bool(self.detail.get("fits", True))

    @property
    def fitting_batch(self) -> str:
        """Which batch fits into memory where this one does not, as far as the system tells."""
        largest = (self.detail or {}).get("largest_batch_size")
        if largest:
            return f"a batch of about {largest} does"
        return "no batch does" if self.scenario.workload.batch_size == 1 else "a smaller one may"

    @property
    def samples_per_s(self) -> float | None:
        """Samples a second of all nodes together; None where none is forecast."""
        if self.value is None or self.value <= 0:
            return None
        return samples_per_s(self.scenario, self.metric.name, self.value)

    @cached_property
    def usd_per_hour(self) -> float | None:
        """What all nodes cost an hour; None where a node type has no price."""
        return usd_per_hour(self.scenario, self.prices)

    @property
    def price_snapshot(self) -> str | None:
        """The id of the prices, as the ledger has it."""
        return None if self.prices is None else price_snapshot(self.prices)

    @property
    def usd_per_million_samples(self) -> float | None:
        """What a million samples cost, as forecast; None where the price or the value lacks."""
        usd = self.usd_per_hour
        if usd is None or self.value is None:
            return None
        return usd_per_million_samples(self.scenario, self.metric.name, self.value, usd)


@dataclass(frozen=True)
class ForecastAnswer:
    """What all systems say: forecasts, refusals, and how many forecasts are new in the ledger."""

    chosen_host: HostSelection
    forecasts: tuple[ScenarioForecast, ...]
    refused: tuple[ForecastRefusal, ...]
    written: int

    @property
    def out_of_memory(self) -> list[ScenarioForecast]:
        """Forecasts of nodes that lack the memory for a step."""
        return [forecast for forecast in self.forecasts if not forecast.fits_memory]

    def with_more(self, other: "ForecastAnswer") -> "ForecastAnswer":
        """Return an answer with that to another question about the same host."""
        return ForecastAnswer(
            self.chosen_host,
            (*self.forecasts, *other.forecasts),
            (*self.refused, *other.refused),
            self.written + other.written,
        )


@looking_once()
def predict_curves(
    warehouse: Warehouse,
    curves: Sequence[Curve],
    systems: Sequence[System],
    *,
    backend: Backend | None = None,
    host: str | None = None,
    chosen_host: HostSelection | None = None,
    dry_run: bool = False,
    known_by: datetime | None = None,
    far_out: bool = True,
    say: Say = lambda _: None,
) -> ForecastAnswer:
    """Forecast the scenarios of curves by systems, from all visible runs; the ledger keeps it.

    Args:
        warehouse: the history.
        curves: what is asked about.
        systems: that are asked.
        backend: whose profiles count; None: as `select_host` chooses.
        host: the same, of hosts.
        chosen_host: whose profiles count, where that was chosen before.
        dry_run: whether the ledger stays as it is.
        known_by: runs that started later do not count, as profiles or as judges; None: all do.
        far_out: whether forecasts are given that are farther out than any that was judged.
        say: told what takes long.

    Raises:
        BadInput: there is no such network or node type, or nothing has been profiled.
    """
    try:
        for curve in curves:
            check(curve.dnn, curve.image_size, curve.framework)
    except ValueError as error:
        raise BadInput(str(error)) from None
    with warehouse.reading():
        scope = HistoryScope.read(
            warehouse,
            curves,
            backend=backend,
            host=host,
            chosen_host=chosen_host,
            known_by=known_by,
        )
        ready = _read(curves, systems, scope, warehouse, known_by)
    return _forecast(*ready, warehouse, dry_run=dry_run, far_out=far_out, say=say)


def forecast_nameless(
    warehouse: Warehouse,
    scenarios: Sequence[Scenario],
    systems: Sequence[System],
    graphs: Mapping[tuple[str, int], PrimitiveGraph],
    measured: Mapping[str, Mapping[str, float]],
    choose_scope: Callable[[Sequence[VisibleRun]], HistoryScope],
) -> ForecastAnswer:
    """Forecast scenarios whose network or nodes have no name here; the ledger keeps nothing.

    Args:
        warehouse: the history.
        scenarios: what is asked about.
        systems: that are asked.
        graphs: of networks without a name, by the name and size that they are asked about by.
        measured: what nodes told that they can do: by node type and metric of probe `inventory`.
        choose_scope: returns whose runs count, of all that are visible.

    Raises:
        BadInput: nothing that counts has been profiled.
    """

    def informed(fit: Fit) -> FittedSystem:
        fitted = fit.fitted()
        if isinstance(fitted, FittedWithObservations):
            return fitted.with_graphs(graphs, measured)
        return fitted

    questions = [NamelessScenario(scenario) for scenario in scenarios]
    with warehouse.reading():
        scope = choose_scope(visible_runs(warehouse))
        ready = _read(questions, systems, scope, warehouse, None)
    return _forecast(*ready, warehouse, dry_run=True, far_out=False, informed=informed)


def _read(
    questions: Sequence[Asked],
    systems: Sequence[System],
    scope: HistoryScope,
    warehouse: Warehouse,
    known_by: datetime | None,
) -> tuple[Plan, HistoryScope, Mapping[FitGroup, Fitter], ForecastHistory]:
    plan = match(questions, systems, scope)
    fitters = read_fits(plan.groups, scope.backend, scope.host_id, warehouse)
    return plan, scope, fitters, read_history(warehouse, plan.groups, scope.chosen_host, known_by)


def _forecast(
    plan: Plan,
    scope: HistoryScope,
    fitters: Mapping[FitGroup, Fitter],
    history: ForecastHistory,
    warehouse: Warehouse,
    *,
    dry_run: bool,
    far_out: bool,
    say: Say = lambda _: None,
    informed: Callable[[Fit], FittedSystem] | None = None,
) -> ForecastAnswer:
    # Matrices are small: threads would wait for each other for most of a question.
    threadpool_limits(1, "blas")
    fits = {group: fit(say) for group, fit in fitters.items()}
    if informed is not None:
        fits = {
            group: replace(fit, fitted=cache(partial(informed, fit)))
            if isinstance(fit, Fit)
            else fit
            for group, fit in fits.items()
        }
    group_of = plan.group_of()
    # Systems read at once what the forecasts need that the ledger does not have.
    new: dict[System, list[Scenario]] = {}
    for key, group in group_of.items():
        fit = fits[group]
        if isinstance(fit, Fit) and _known(fit, key, history) is None:
            new.setdefault(key[0], []).append(key[2])
    for system, scenarios in new.items():
        system.prepare(scenarios)
    answers = [
        matched
        if isinstance(matched, ForecastRefusal)
        else _answer(key, group_of[key], fits, history, far_out)
        for key, matched in plan.matched.items()
    ]
    forecasts = tuple(answer for answer in answers if isinstance(answer, ScenarioForecast))
    refused = tuple(answer for answer in answers if isinstance(answer, ForecastRefusal))
    written = 0
    if not dry_run:
        unwritten = [
            each
            for each in forecasts
            if each.is_new
            or not history.has_asked(each.fit.fit_id, each.scenario, each.price_snapshot)
        ]
        written = write_forecasts(unwritten, scope.chosen_host, warehouse, _made(fits))
    return ForecastAnswer(scope.chosen_host, forecasts, refused, written)


def fit_for_scenario(
    warehouse: Warehouse,
    system: System,
    curve: Curve,
    chosen_host: HostSelection,
    *,
    known_by: datetime | None = None,
    say: Say = lambda _: None,
) -> FittedSystem | None:
    """Return a system fitted to what a forecast of a curve's first scenario rests on.

    The history keeps the fit. None: something that it rests on is missing, or cannot be fitted to.

    Args:
        warehouse: the history.
        system: that is fitted.
        curve: whose first scenario counts.
        chosen_host: whose runs count.
        known_by: runs that started later do not count; None: all do.
        say: told what takes long.
    """
    first = curve.model_copy(update={"workers": curve.workers[:1]})
    with warehouse.reading():
        scope = HistoryScope.read(warehouse, [first], chosen_host=chosen_host, known_by=known_by)
        plan = match([first], [system], scope)
        fitters = read_fits(plan.groups, scope.backend, scope.host_id, warehouse)
    fits = {group: fit(say) for group, fit in fitters.items()}
    write_forecasts((), chosen_host, warehouse, _made(fits))
    fit = next(iter(fits.values()), None)
    return fit.fitted() if isinstance(fit, Fit) else None


def _known(fit: Fit, key: Key, history: ForecastHistory) -> Figures | None:
    """Return what the ledger has of this fit."""
    return None if fit.record else history.forecast(fit.fit_id, key[2])


def _answer(
    key: Key,
    group: FitGroup,
    fits: dict[FitGroup, Fit | BadInput],
    history: ForecastHistory,
    far_out: bool,
) -> ScenarioForecast | ForecastRefusal:
    system, _, scenario = key
    split, fit = history.split_of(group, scenario), fits[group]
    telling = None
    if system.tells and isinstance(fit, Fit):
        telling = cast(FittedWithDetail, fit.fitted())  # to tell by its methods takes longer
        split = telling.split(scenario) or split
    metric = metric_of(scenario)
    nearest, far = find_nearest_cases(history.judged, system.name, metric.name, scenario, split)
    if not far_out:
        judged = history.judged.get((system.name, metric.name), ())
        trained = (run.subject.scenario for run in group.runs if run.exchanges)
        if beyond := far or far_links(scenario, trained, judged):
            return ForecastRefusal(scenario, system, f"far out: {beyond}; {_SHOWN}")
    if isinstance(fit, BadInput):
        return ForecastRefusal(scenario, system, str(fit))
    try:
        known = _known(fit, key, history)
        # Beside its detail a forecast is that of the same step, whatever was kept under its name.
        kept = known if telling is None else None
        value, low, high, unknown = kept or figures_of(fit, scenario)
        own = fit.fitted() if system.has_fallback else None
        answered_by = own.answered_by(scenario) if isinstance(own, FittedWithFallback) else None
        detail = None if telling is None else telling.detail(scenario)
    except BadInput as error:
        return ForecastRefusal(scenario, system, str(error))
    return ScenarioForecast(
        scenario=scenario,
        system=system,
        metric=metric,
        value=value,
        low=low,
        high=high,
        unknown=unknown,
        fit=fit,
        split=split,
        past=history.past.get((system.name, split, metric.name)),
        nearest=nearest,
        far=far,
        is_new=known is None,
        changed=history.changed_since(group),
        prices=prices_of(scenario, history.prices),
        answered_by=None if answered_by == system.name else answered_by,
        detail=detail,
    )


def _made(fits: Mapping[FitGroup, Fit | BadInput]) -> list[FitRecord]:
    """Return the records of the fits that were made now."""
    return [fit.record for fit in fits.values() if isinstance(fit, Fit) and fit.record is not None]
