"""Forecasts that somebody asks for of scenarios that nobody measured; the ledger keeps them.

A study's forecasts rest on its own runs. These rest on all profile runs of a backend and host;
those of systems that know nodes by what they can do, where it has few steps, on other hosts' too.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from forecasting.costs import Cost, cost_of, usd_per_million_samples
from forecasting.fits import registered_of
from forecasting.history_scope import (
    FitGroup,
    HostSelection,
    RunIndex,
    SelectedRuns,
    group_by_fit,
    host_here,
    public_runs,
    select_by_inventory,
    select_host,
    select_runs,
    visible_runs,
)
from forecasting.inputs import MissingRuns, find_missing_runs
from forecasting.nearest import NearestCases, find_nearest_cases
from forecasting.question_history import (
    Figures,
    ForecastHistory,
    GroupFit,
    NodeTypeChange,
    PastErrors,
    fit_or_load_group,
    read_fits,
    read_history,
)
from models.profiled_run import refusal
from models.system import FittedSystem, FittedWithDetail, FittedWithFallback, System
from networks import check
from profilers.probe import Metric
from profilers.probes import measuring_probe
from studies.curve import Curve
from studies.planned_runs import resolve_input
from warehouse import ledger as registered
from warehouse.home import code_version
from warehouse.inputs import Refusal
from warehouse.ledger import FitRecord
from warehouse.records import Backend, BadInput, Prediction, Scenario
from warehouse.warehouse import Warehouse

Say = Callable[[str], None]
_SHOWN = "`stepcast predict --far-out` shows the number"


@dataclass(frozen=True)
class ScenarioForecast:
    """A system's forecast of a scenario, what it rests on, and how wrong such ones have been.

    `value` is None where the system knows no more than `low` and `high`: `unknown` says why.
    `past` is None where nothing has been judged that is as far from what its fit saw; `is_new`
    tells a forecast that was made now from one that the ledger has. `changed` are node types that
    are not any more what the profiles say that it rests on. `cost` is None where a node type has no
    price. `case` says which judged scenarios are nearest, and whether it is far from all of them.
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
    fit: GroupFit
    split: str
    past: PastErrors | None
    case: NearestCases
    is_new: bool
    changed: tuple[NodeTypeChange, ...] = ()
    cost: Cost | None = None
    corrected_by: str | None = None
    answered_by: str | None = None
    detail: Mapping[str, Any] | None = None

    @property
    def has_room(self) -> bool:
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
    def usd_per_million_samples(self) -> float | None:
        """What a million samples cost, as forecast; None where the price or the value lacks."""
        if self.cost is None or self.value is None:
            return None
        usd = self.cost.usd_per_hour
        return usd_per_million_samples(self.scenario, self.metric.name, self.value, usd)


@dataclass(frozen=True)
class ForecastRefusal:
    """Why a system forecasts nothing of a scenario, and what could be measured to mend it.

    `foreign`: the system is about other training.
    """

    scenario: Scenario
    system: System
    reason: str
    foreign: bool = False
    lacking: tuple[MissingRuns, ...] = field(default=())

    @property
    def in_words(self) -> str:
        """The system and its reason."""
        return f"{self.system.name}: {self.reason}"


@dataclass(frozen=True)
class ForecastAnswer:
    """What all systems say: forecasts, refusals, and how many forecasts are new in the ledger."""

    place: HostSelection
    forecasts: tuple[ScenarioForecast, ...]
    refused: tuple[ForecastRefusal, ...]
    written: int

    @property
    def without_room(self) -> list[ScenarioForecast]:
        """Forecasts of nodes that lack the memory for a step."""
        return [forecast for forecast in self.forecasts if not forecast.has_room]

    def with_more(self, other: "ForecastAnswer") -> "ForecastAnswer":
        """Return an answer with that to another question about the same place."""
        return ForecastAnswer(
            self.place,
            (*self.forecasts, *other.forecasts),
            (*self.refused, *other.refused),
            self.written + other.written,
        )


def predict_curves(
    warehouse: Warehouse,
    curves: Sequence[Curve],
    systems: Sequence[System],
    *,
    backend: Backend | None = None,
    host: str | None = None,
    place: HostSelection | None = None,
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
        place: whose profiles count, where that was chosen before.
        dry_run: whether the ledger stays as it is.
        known_by: runs that started later do not count, as profiles or as judges; None: all do.
        far_out: whether forecasts are given that are farther out than any that was judged.
        say: told what takes long.

    Raises:
        BadInput: there is no such network or node type, or nothing has been profiled.
    """
    for curve in curves:
        _check_network(curve)
    with warehouse.reading():
        runs = visible_runs(warehouse, known_by)
        public = public_runs(warehouse, known_by)
        if place is None:
            is_chosen = bool(runs or host or not public)
            place = select_host(runs, curves, backend, host) if is_chosen else host_here()
        on_backend = [run for run in runs if run.backend == place.backend]
        host_runs = [run for run in on_backend if run.host_id == place.host_id]
        on_host = RunIndex([*host_runs, *public])
        elsewhere = RunIndex(run for run in on_backend if run.host_id != place.host_id)
        wanted = {
            (system, curve, scenario): _rests(system, curve, scenario, on_host, elsewhere, place)
            for curve in curves
            for scenario in curve.scenarios(place.backend)
            for system in systems
        }
        groups = group_by_fit(
            {
                key: selected
                for key, selected in wanted.items()
                if isinstance(selected, SelectedRuns)
            }
        )
        history = read_history(warehouse, groups, place, known_by)
    fits = {group: fit_or_load_group(group, history, place, say) for group in groups}
    group_of = {
        (group.system, *curve_and_scenario): group
        for group in groups
        for curve_and_scenario in group.of
    }
    _prepare(wanted, group_of, fits, history)
    answers = [
        _answer(key, selected, group_of.get(key), fits, history, far_out)
        for key, selected in wanted.items()
    ]
    forecasts = tuple(answer for answer in answers if isinstance(answer, ScenarioForecast))
    refused = tuple(answer for answer in answers if isinstance(answer, ForecastRefusal))
    written = 0
    if not dry_run:
        written = write_forecasts(_unwritten(forecasts, history), place, warehouse, _made(fits))
    return ForecastAnswer(place, forecasts, refused, written)


def fit_for_scenario(
    warehouse: Warehouse,
    system: System,
    curve: Curve,
    place: HostSelection,
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
        place: whose runs count.
        known_by: runs that started later do not count; None: all do.
        say: told what takes long.
    """
    scenario = curve.scenarios(place.backend)[0]
    with warehouse.reading():
        runs = [run for run in visible_runs(warehouse, known_by) if run.backend == place.backend]
        host_runs = [run for run in runs if run.host_id == place.host_id]
        elsewhere = RunIndex(run for run in runs if run.host_id != place.host_id)
        on_host = RunIndex([*host_runs, *public_runs(warehouse, known_by)])
        rests = _rests(system, curve, scenario, on_host, elsewhere, place)
        if isinstance(rests, ForecastRefusal):
            return None
        (group,) = group_by_fit({(system, curve, scenario): rests})
        history = read_fits(warehouse, (group,), place)
    fit = fit_or_load_group(group, history, place, say)
    if isinstance(fit, BadInput):
        return None
    if fit.record is not None:
        write_forecasts((), place, warehouse, {system: [fit.record]})
    return fit.fitted()


Key = tuple[System, Curve, Scenario]


def _check_network(curve: Curve) -> None:
    try:
        check(curve.dnn, curve.image_size, curve.framework)
    except ValueError as error:
        raise BadInput(str(error)) from None


def _rests(
    system: System,
    curve: Curve,
    scenario: Scenario,
    runs: RunIndex,
    elsewhere: RunIndex,
    place: HostSelection,
) -> SelectedRuns | ForecastRefusal:
    """Return the runs that a forecast rests on; a refusal if some are not there."""
    asks = system.rests_on(scenario)
    # What others measured is of no host, and a forecast does without what is optional.
    of_hosts = isinstance(asks, Refusal) or any(
        ask.whose != "public" and not ask.optional for ask in asks
    )
    if of_hosts and (reason := place.lacks(scenario)):
        return ForecastRefusal(scenario, system, reason)
    if isinstance(asks, Refusal):
        return ForecastRefusal(scenario, system, asks.reason, asks.foreign)
    on_links = [resolve_input(ask, curve, place.backend) for ask in asks]
    for ask, resolved in zip(asks, on_links, strict=True):
        if ask.on_its_link and (reason := refusal(resolved[0].scenario, ask.scenario)):
            return ForecastRefusal(scenario, system, reason)
    resolved_asks = list(chain(*on_links))
    selected = select_runs(resolved_asks, runs)
    if system.travels:
        selected = select_by_inventory(resolved_asks, selected, runs, elsewhere)
    if not selected.lacking:
        several = scenario.strategy.workers * scenario.strategy.devices_per_node > 1
        learns = any(ask.whose == "train" and not ask.optional for ask in asks)
        if several and learns and not any(run.exchanges for run in selected.runs):
            return ForecastRefusal(
                scenario, system, "no steps of several devices, so no exchange is known"
            )
        return selected
    needed = find_missing_runs(selected.lacking)
    reason = f"no {', no '.join(missing_run.text for missing_run in needed)}"
    return ForecastRefusal(scenario, system, reason, lacking=needed)


def _prepare(
    wanted: Mapping[Key, SelectedRuns | ForecastRefusal],
    group_of: Mapping[Key, FitGroup],
    fits: Mapping[FitGroup, GroupFit | BadInput],
    history: ForecastHistory,
) -> None:
    """Let systems read at once what the forecasts need that the ledger does not have."""
    new: dict[System, list[Scenario]] = {}
    for key, selected in wanted.items():
        if isinstance(selected, ForecastRefusal):
            continue
        fit = fits[group_of[key]]
        if isinstance(fit, GroupFit) and _known(fit, key, history) is None:
            new.setdefault(key[0], []).append(key[2])
    for system, scenarios in new.items():
        system.prepare(scenarios)


def _known(fit: GroupFit, key: Key, history: ForecastHistory) -> Figures | None:
    """Return what the ledger has of this fit."""
    return None if fit.record else history.forecast(fit.fit_id, key[2])


def _answer(
    key: Key,
    rests: SelectedRuns | ForecastRefusal,
    group: FitGroup | None,
    fits: dict[FitGroup, GroupFit | BadInput],
    history: ForecastHistory,
    far_out: bool,
) -> ScenarioForecast | ForecastRefusal:
    if isinstance(rests, ForecastRefusal):
        return rests
    assert group is not None
    system, _, scenario = key
    split, fit = history.split_of(group, scenario), fits[group]
    fitted = fit.fitted() if system.tells and isinstance(fit, GroupFit) else None
    if isinstance(fitted, FittedWithDetail):
        split = fitted.split(scenario) or split
    metric = measuring_probe(scenario).metric
    assert metric is not None
    case = find_nearest_cases(history.judged, system.name, metric.name, scenario, split)
    if case.far is not None and not far_out:
        return ForecastRefusal(scenario, system, f"far out: {case.far}; {_SHOWN}")
    if isinstance(fit, BadInput):
        return ForecastRefusal(scenario, system, str(fit))
    try:
        known = _known(fit, key, history)
        value, low, high, unknown = known or _figures(fit, scenario)
        answered_by = _answered_by(fit, scenario) if system.falls_back else None
        detail = fitted.detail(scenario) if isinstance(fitted, FittedWithDetail) else None
    except BadInput as error:
        return ForecastRefusal(scenario, system, str(error))
    past = history.past.get((system.name, split, metric.name))
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
        past=past,
        case=case,
        is_new=known is None,
        changed=history.changed_since(group),
        cost=cost_of(scenario, history.prices),
        answered_by=None if answered_by == system.name else answered_by,
        detail=detail,
    )


def _made(fits: Mapping[FitGroup, GroupFit | BadInput]) -> dict[System, list[FitRecord]]:
    """Return the records of the fits that were made now, by system."""
    records: dict[System, list[FitRecord]] = {}
    for group, fit in fits.items():
        if isinstance(fit, GroupFit) and fit.record is not None:
            records.setdefault(group.system, []).append(fit.record)
    return records


def _unwritten(
    forecasts: Sequence[ScenarioForecast], history: ForecastHistory
) -> list[ScenarioForecast]:
    """Return forecasts that were made now, and those that nobody had asked for."""
    return [
        forecast
        for forecast in forecasts
        if forecast.is_new
        or not history.has_asked(forecast.fit.fit_id, forecast.scenario, snapshot_of(forecast))
    ]


def _answered_by(fit: GroupFit, scenario: Scenario) -> str:
    fitted = fit.fitted()
    assert isinstance(fitted, FittedWithFallback)
    return fitted.answered_by(scenario)


def _figures(fit: GroupFit, scenario: Scenario) -> Figures:
    (row,) = fit.fitted().predict([scenario]).to_dicts()
    return row["value"], row["low"], row["high"], row.get("unknown")


# Forecasts that were merely asked for, as the ledger keeps them.


def write_forecasts(
    new: Sequence["ScenarioForecast"],
    place: HostSelection,
    warehouse: Warehouse,
    refused: Mapping[System, Sequence[FitRecord]] | None = None,
) -> int:
    """Write forecasts and return how many are new; for nothing new the history is not opened.

    Args:
        new: forecasts.
        place: whose they are.
        warehouse: the history.
        refused: fits that were made, by system, whose forecasts may all be refused: they need not
            be made again when somebody asks the next time.
    """
    fits = [
        (forecast.system, forecast.fit.record)
        for forecast in new
        if forecast.fit.record is not None
    ]
    fits += [(system, record) for system, records in (refused or {}).items() for record in records]
    if not new and not fits:
        return 0
    return warehouse.record_asked(
        tuple(_systems([*(forecast.system for forecast in new), *(system for system, _ in fits)])),
        [record for _, record in fits],
        [forecast.scenario for forecast in new],
        [_prediction(forecast, place) for forecast in new],
        {forecast.cost.prices for forecast in new if forecast.cost is not None},
    )


def snapshot_of(forecast: "ScenarioForecast") -> str | None:
    """Return the id of the prices that a forecast names."""
    return None if forecast.cost is None else forecast.cost.snapshot


def _systems(systems: Iterable[System]) -> Iterator[registered.RegisteredSystem]:
    yield from map(registered_of, dict.fromkeys(systems))


def _prediction(forecast: "ScenarioForecast", place: HostSelection) -> Prediction:
    return Prediction(
        system=forecast.system.name,
        model_version=forecast.system.version,
        fit_id=forecast.fit.fit_id,
        subject_id=forecast.scenario.scenario_id,
        backend=place.backend,
        host_id=place.host_id,
        study=None,
        repeat=None,
        metric=forecast.metric.name,
        unit=forecast.metric.unit,
        value=forecast.value,
        low=forecast.low,
        high=forecast.high,
        price_snapshot=snapshot_of(forecast),
        code_version=code_version(),
        made_at=datetime.now(UTC),
    )
