"""Simulations of asynchronous SGD: the fit of a round, and timelines beside measured ones."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from forecasting.fits import fit_or_load, landed_tables
from forecasting.inputs import round_input_runs
from forecasting.question import ForecastAnswer
from models.async_sgd import timeline
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic_trace import steps_per_s
from models.async_sgd.systems import ASYNC_SGD, ONE_SERVER
from models.async_sgd.timeline import Timeline, chrome_trace, simulate_trace
from models.async_sgd.workers import group_of_each
from profilers.probe import PlannedRun
from studies.curve import Curve
from studies.rounds import Round
from warehouse.records import BadInput, Run, Scenario
from warehouse.warehouse import Warehouse


class FittedModels(Mapping[PlannedRun, AsyncSGD]):
    """A model of each profile of a round, fitted to what its forecasts were fitted to.

    Where curves share a profile, the model knows the links of all of them. Fitting takes seconds,
    so a model is fitted when it is first asked for, or loaded if `warehouse` keeps it.
    """

    def __init__(self, round_: Round, landing: Path, warehouse: Warehouse | None = None) -> None:
        self._round, self._landing, self._warehouse = round_, landing, warehouse
        self._fitted: dict[PlannedRun, AsyncSGD | None] = dict.fromkeys(round_.runs_of("tf_trace"))
        self._mixed: dict[tuple[PlannedRun, ...], AsyncSGD] = {}

    def __getitem__(self, need: PlannedRun) -> AsyncSGD:
        """Return the model of a profile."""
        model = self._fitted[need]
        if model is None:
            model = self._fitted[need] = self._fit([need])
        return model

    def __iter__(self) -> Iterator[PlannedRun]:
        """Iterate over the profiles, in the order of the study."""
        return iter(self._fitted)

    def __len__(self) -> int:
        """Return how many profiles have landed."""
        return len(self._fitted)

    def profiles_of(self, curve: Curve) -> tuple[PlannedRun, ...]:
        """Return the profiles of a curve, one for each type of its workers; those that landed."""
        rests = round_input_runs(self._round, ASYNC_SGD, curve)
        return tuple(need for need in self if need in rests)

    def of_curve(self, curve: Curve) -> AsyncSGD | None:
        """Return the model of a curve, fitted to all its profiles; None if one has not landed."""
        profiles = self.profiles_of(curve)
        if len(profiles) < len(set(curve.worker)):
            return None
        if len(profiles) == 1:
            return self[profiles[0]]
        if profiles not in self._mixed:
            self._mixed[profiles] = self._fit(profiles)
        return self._mixed[profiles]

    def _fit(self, profiles: Sequence[PlannedRun]) -> AsyncSGD:
        runs = _seen(profiles, self._round)
        tables = landed_tables(ASYNC_SGD, runs, self._landing)
        model = fit_or_load(ASYNC_SGD, [run.run_id for run in runs], tables, self._warehouse)
        assert isinstance(model, AsyncSGD)
        return model


def _seen(profiles: Sequence[PlannedRun], round_: Round) -> list[Run]:
    """Return the runs of these profiles, and of links and contention of curves with them."""
    types = frozenset[str]().union(*(need.subject.worker_types for need in profiles))
    asked: dict[PlannedRun, None] = {}
    for system in (ASYNC_SGD, ONE_SERVER):
        for curve in round_.study.curves:
            rests = round_input_runs(round_, system, curve)
            if set(profiles) & set(rests):
                asked |= {
                    need: None
                    for need in rests
                    if need in profiles
                    or (need.probe != "tf_trace" and need.subject.worker_types <= types)
                }
    runs = (round_.run_of(need) for need in round_.needs if need in asked)
    return [run for run in runs if run is not None]


# Simulated steps of a fit of asynchronous SGD, and as a Chrome trace those behind a forecast.


STEPS = 5
"""Steps of each worker in a trace."""


def simulate_timeline(model: AsyncSGD, scenario: Scenario, steps: int) -> tuple[Timeline, float]:
    """Return steps of a simulation after its warm-up, and its throughput in steps/s."""
    trace = simulate_trace(model, scenario, record=True)
    skip = model.parameters.settings.warm_up_steps
    graphs = [group.graph for group in group_of_each(model.simulation(scenario, 0))]
    shown = timeline.timeline_of_trace(graphs, trace, skip=skip, count=steps)
    return shown, steps_per_s(trace, skip)


def trace_of(answer: ForecastAnswer) -> str:
    """Return `STEPS` steps of the first simulation behind async_sgd's forecast, as JSON.

    Raises:
        BadInput: it forecasts no scenario of the answer, or several.
    """
    forecasts = [forecast for forecast in answer.forecasts if forecast.system == ASYNC_SGD]
    if not forecasts:
        why = [refusal.reason for refusal in answer.refused if refusal.system == ASYNC_SGD]
        reason = why[0] if why else "it was not asked; name it among --systems"
        raise BadInput(f"--chrome-trace: {ASYNC_SGD.name} forecasts nothing here: {reason}")
    if len(forecasts) > 1:
        labels = "; ".join(forecast.scenario.label for forecast in forecasts)
        raise BadInput(f"--chrome-trace: expected one scenario, found {labels}; ask about one")
    (forecast,) = forecasts
    model = forecast.fit.fitted()
    assert isinstance(model, AsyncSGD)
    shown, _ = simulate_timeline(model, forecast.scenario, STEPS)
    label, fit_id = forecast.scenario.label, forecast.fit.fit_id
    return chrome_trace(shown, {"scenario": label, "fit_id": fit_id, "seed": 0})
