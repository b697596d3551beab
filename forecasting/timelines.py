"""Simulated steps of a fit of asynchronous SGD, and as a Chrome trace those behind a forecast."""

from forecasting.asked.answer import Answer
from models.async_sgd import timeline
from models.async_sgd.chrome_trace import chrome_trace
from models.async_sgd.predictor import AsyncSGD
from models.async_sgd.synthetic import synthesise
from models.async_sgd.systems import ASYNC_SGD
from models.async_sgd.throughput import steps_per_s
from models.async_sgd.timeline import Timeline
from models.async_sgd.workers import group_of_each
from warehouse.records import BadInput, Scenario

STEPS = 5
"""Steps of each worker in a trace."""


def simulated(model: AsyncSGD, scenario: Scenario, steps: int) -> tuple[Timeline, float]:
    """Return steps of a simulation after its warm-up, and its throughput in steps/s."""
    trace = synthesise(model, scenario, record=True)
    skip = model.parameters.settings.warm_up_steps
    graphs = [group.graph for group in group_of_each(model.simulation(scenario, 0))]
    shown = timeline.simulated(graphs, trace, skip=skip, count=steps)
    return shown, steps_per_s(trace, skip)


def trace_of(answer: Answer) -> str:
    """Return `STEPS` steps of the first simulation behind async_sgd's forecast, as JSON.

    Raises:
        BadInput: it forecasts no scenario of the answer, or several.
    """
    forecasts = [one for one in answer.forecasts if one.system == ASYNC_SGD]
    if not forecasts:
        why = [one.reason for one in answer.refused if one.system == ASYNC_SGD]
        reason = why[0] if why else "it was not asked; name it among --systems"
        raise BadInput(f"--chrome-trace: {ASYNC_SGD.name} forecasts nothing here: {reason}")
    if len(forecasts) > 1:
        labels = "; ".join(one.scenario.label for one in forecasts)
        raise BadInput(f"--chrome-trace: expected one scenario, found {labels}; ask about one")
    (forecast,) = forecasts
    model = forecast.fit.fitted()
    assert isinstance(model, AsyncSGD)
    shown, _ = simulated(model, forecast.scenario, STEPS)
    label, fit_id = forecast.scenario.label, forecast.fit.fit_id
    return chrome_trace(shown, {"scenario": label, "fit_id": fit_id, "seed": 0})
