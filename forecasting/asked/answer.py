"""Forecasts that somebody merely asks for: of scenarios that nobody measured, by all that is known.

A study's forecasts rest on its own runs. These rest on all profile runs of a backend and host;
those of systems that know nodes by what they can do, where it has few steps, on other hosts' too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import chain

from forecasting.asked.costs import Cost, cost_of, usd_per_million_samples
from forecasting.asked.fits import AskedFit, made
from forecasting.asked.groups import Group, groups_of
from forecasting.asked.history import Changed, Figures, History, Past, read_history
from forecasting.asked.lacking import Lacking, lacking
from forecasting.asked.near import Case, how_far
from forecasting.asked.place import Place, place_of
from forecasting.asked.runs import Met, VisibleRun, described, met, visible_runs
from forecasting.asked.writing import snapshot_of, write
from models.profiled_run import refusal
from models.system import FallsBack, System
from networks import check
from profilers.probe import Metric
from studies.curve import Curve
from studies.needs import resolved
from warehouse.asks import Refusal
from warehouse.ledger import FitRecord
from warehouse.records import Backend, BadInput, Scenario
from warehouse.warehouse import Warehouse

Say = Callable[[str], None]
_SHOWN = "`stepcast predict --far-out` shows the number"


@dataclass(frozen=True)
class Forecast:
    """A system's forecast of a scenario, what it rests on, and how wrong such ones have been.

    `value` is None where the system knows no more than `low` and `high`: `unknown` says why.
    `past` is None where nothing has been judged that is as far from what its fit saw; `is_new`
    tells a forecast that was made now from one that the ledger has. `changed` are node types that
    are not any more what the profiles say that it rests on. `cost` is None where a node type has no
    price. `case` says which judged scenarios are nearest, and whether it is far from all of them.
    `corrected_by` is the measured step that corrected it; None: it is the system's own.
    `answered_by` is whose forecast the system gave where its own would be worse; None: its own.
    """

    scenario: Scenario
    system: System
    metric: Metric
    value: float | None
    low: float | None
    high: float | None
    unknown: str | None
    fit: AskedFit
    split: str
    past: Past | None
    case: Case
    is_new: bool
    changed: tuple[Changed, ...] = ()
    cost: Cost | None = None
    corrected_by: str | None = None
    answered_by: str | None = None

    @property
    def usd_per_million_samples(self) -> float | None:
        """What a million samples cost, as forecast; None where the price or the value lacks."""
        if self.cost is None or self.value is None:
            return None
        usd = self.cost.usd_per_hour
        return usd_per_million_samples(self.scenario, self.metric.name, self.value, usd)


@dataclass(frozen=True)
class Refused:
    """Why a system forecasts nothing of a scenario, and what could be measured to mend it.

    `foreign`: the system is about other training.
    """

    scenario: Scenario
    system: System
    reason: str
    foreign: bool = False
    lacking: tuple[Lacking, ...] = field(default=())


@dataclass(frozen=True)
class Answer:
    """What all systems say: forecasts, refusals, and how many forecasts are new in the ledger."""

    place: Place
    forecasts: tuple[Forecast, ...]
    refused: tuple[Refused, ...]
    written: int


def predict_asked(
    warehouse: Warehouse,
    curves: Sequence[Curve],
    systems: Sequence[System],
    *,
    backend: Backend | None = None,
    host: str | None = None,
    dry_run: bool = False,
    known_by: datetime | None = None,
    far_out: bool = True,
    say: Say = lambda _: None,
) -> Answer:
    """Forecast the scenarios of curves by systems, from all visible runs; the ledger keeps it.

    Args:
        warehouse: the history.
        curves: what is asked about.
        systems: that are asked.
        backend: whose profiles count; None: as `place_of` chooses.
        host: the same, of hosts.
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
        place = place_of(runs, curves, backend, host)
        on_backend = [run for run in runs if run.backend == place.backend]
        ours = [run for run in on_backend if run.host_id == place.host_id]
        elsewhere = [run for run in on_backend if run.host_id != place.host_id]
        wanted = {
            (system, curve, scenario): _rests(system, curve, scenario, ours, elsewhere, place)
            for curve in curves
            for scenario in curve.scenarios(place.backend)
            for system in systems
        }
        groups = groups_of({key: one for key, one in wanted.items() if isinstance(one, Met)})
        history = read_history(warehouse, groups, place, known_by)
    fits = {group: made(group, history, place, say) for group in groups}
    _prepare(wanted, groups, fits, history)
    answers = [_answer(key, one, groups, fits, history, far_out) for key, one in wanted.items()]
    forecasts = tuple(one for one in answers if isinstance(one, Forecast))
    refused = tuple(one for one in answers if isinstance(one, Refused))
    written = 0
    if not dry_run:
        written = write(_unwritten(forecasts, history), place, warehouse, _made(fits))
    return Answer(place, forecasts, refused, written)


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
    runs: Sequence[VisibleRun],
    elsewhere: Sequence[VisibleRun],
    place: Place,
) -> Met | Refused:
    """Return the runs that a forecast rests on; a refusal if some are not there."""
    if reason := place.lacks(scenario):
        return Refused(scenario, system, reason)
    asks = system.rests_on(scenario)
    if isinstance(asks, Refusal):
        return Refused(scenario, system, asks.reason, asks.foreign)
    on_links = [resolved(ask, curve, place.backend) for ask in asks]
    for ask, ours in zip(asks, on_links, strict=True):
        if ask.on_its_link and (reason := refusal(ours[0].scenario, ask.scenario)):
            return Refused(scenario, system, reason)
    resolved_asks = list(chain(*on_links))
    found = met(resolved_asks, runs)
    if system.travels:
        found = described(resolved_asks, found, runs, elsewhere)
    if not found.lacking:
        several = scenario.strategy.workers * scenario.strategy.devices_per_node > 1
        learns = any(ask.whose == "train" for ask in asks)
        if several and learns and not any(run.exchanges for run in found.runs):
            return Refused(scenario, system, "no steps of several devices, so no exchange is known")
        return found
    needed = lacking(found.lacking)
    reason = f"no {', no '.join(one.text for one in needed)}"
    return Refused(scenario, system, reason, lacking=needed)


def _prepare(
    wanted: Mapping[Key, Met | Refused],
    groups: Sequence[Group],
    fits: Mapping[Group, AskedFit | BadInput],
    history: History,
) -> None:
    """Let systems read at once what the forecasts need that the ledger does not have."""
    new: dict[System, list[Scenario]] = {}
    for key, one in wanted.items():
        if isinstance(one, Refused):
            continue
        fit = fits[_group_of(key, groups)]
        if isinstance(fit, AskedFit) and _known(fit, key, history) is None:
            new.setdefault(key[0], []).append(key[2])
    for system, scenarios in new.items():
        system.prepare(scenarios)


def _group_of(key: Key, groups: Sequence[Group]) -> Group:
    system, curve, scenario = key
    return next(one for one in groups if one.system == system and (curve, scenario) in one.of)


def _known(fit: AskedFit, key: Key, history: History) -> Figures | None:
    """Return what the ledger has of this fit."""
    return None if fit.record else history.forecast(fit.fit_id, key[2])


def _answer(
    key: Key,
    rests: Met | Refused,
    groups: Sequence[Group],
    fits: dict[Group, AskedFit | BadInput],
    history: History,
    far_out: bool,
) -> Forecast | Refused:
    if isinstance(rests, Refused):
        return rests
    system, curve, scenario = key
    group = _group_of(key, groups)
    split = history.split_of(group, scenario)
    case = how_far(history.judged, system.name, curve.metric.name, scenario, split)
    if case.far is not None and not far_out:
        return Refused(scenario, system, f"far out: {case.far}; {_SHOWN}")
    fit = fits[group]
    if isinstance(fit, BadInput):
        return Refused(scenario, system, str(fit))
    try:
        known = _known(fit, key, history)
        value, low, high, unknown = known or _figures(fit, scenario)
        answered_by = _answered_by(fit, scenario) if system.falls_back else None
    except BadInput as error:
        return Refused(scenario, system, str(error))
    past = history.past.get((system.name, split, curve.metric.name))
    return Forecast(
        scenario=scenario,
        system=system,
        metric=curve.metric,
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
    )


def _made(fits: Mapping[Group, AskedFit | BadInput]) -> dict[System, list[FitRecord]]:
    """Return the records of the fits that were made now, by system."""
    found: dict[System, list[FitRecord]] = {}
    for group, fit in fits.items():
        if isinstance(fit, AskedFit) and fit.record is not None:
            found.setdefault(group.system, []).append(fit.record)
    return found


def _unwritten(forecasts: Sequence[Forecast], history: History) -> list[Forecast]:
    """Return forecasts that were made now, and those that nobody had asked for."""
    return [
        one
        for one in forecasts
        if one.is_new or not history.has_asked(one.fit.fit_id, one.scenario, snapshot_of(one))
    ]


def _answered_by(fit: AskedFit, scenario: Scenario) -> str:
    fitted = fit.fitted()
    assert isinstance(fitted, FallsBack)
    return fitted.answered_by(scenario)


def _figures(fit: AskedFit, scenario: Scenario) -> Figures:
    (row,) = fit.fitted().predict([scenario]).to_dicts()
    return row["value"], row["low"], row["high"], row.get("unknown")
