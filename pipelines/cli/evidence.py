"""What to know before a forecast is used: nearest judged cases, foreign steps, what has changed."""

from collections.abc import Iterator, Sequence
from typing import Any

from fleet.readings import in_words
from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.nearest import NeighbourDistance
from forecasting.scope import ForecastRefusal
from studies.messages import count, name_some

_NAMED = 3
"""How many of the nearest are named; JSON has all."""


def label(forecast: ScenarioForecast | ForecastRefusal) -> str:
    """Return the label of a scenario, with the type of its workers where that lacks it."""
    text = forecast.scenario.label
    types = dict.fromkeys(group.node_type for group in forecast.scenario.worker_groups)
    return text if all(name in text for name in types) else f"{text} ({' + '.join(types)})"


def at_split(forecast: ScenarioForecast) -> str:
    """Return how wrong a system has been at this split."""
    if forecast.corrected_by is not None:
        return "corrected"
    return (
        "never judged"
        if forecast.past is None
        else f"{forecast.past.mape:.1f} %, n = {forecast.past.n}"
    )


def noise(forecast: ScenarioForecast) -> str:
    """Return how much repeats differ of what a system has been judged by."""
    if forecast.corrected_by is not None or forecast.past is None:
        return ""
    floor = forecast.past.noise_floor
    return "not known" if floor is None else f"{floor:.1f} %, n = {forecast.past.noise_n}"


def of_nearest(forecast: ScenarioForecast) -> str:
    """Return how wrong a system has been of the nearest scenarios."""
    case = forecast.case
    if forecast.corrected_by is not None or case.error is None:
        return ""
    inside = f", {case.inside} of {case.intervals} inside" if case.intervals else ""
    return f"{case.error:.1f} %, n = {len(case.nearest)}{inside}"


def nearest_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each scenario: the nearest that were judged, and for which systems."""
    systems_of: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for forecast in forecasts:
        if forecast.case.nearest and forecast.corrected_by is None:
            near = tuple(_named(near) for near in forecast.case.nearest[:_NAMED])
            systems_of.setdefault((forecast.scenario.label, near), []).append(forecast.system.name)
    for (label, near), systems in systems_of.items():
        yield f"Nearest to {label} ({', '.join(systems)}): {'; '.join(near)}."


def correction_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each measured step that corrected forecasts of a system."""
    corrections = (
        (forecast.system.name, forecast.corrected_by)
        for forecast in forecasts
        if forecast.corrected_by
    )
    for system, by in dict.fromkeys(corrections):
        yield f"{system}: corrected by {by}."


def far_out_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each way in which forecasts are farther out than any that was judged."""
    systems_of: dict[tuple[str, str], list[str]] = {}
    for forecast in forecasts:
        if forecast.case.far is not None and forecast.corrected_by is None:
            systems_of.setdefault((forecast.scenario.label, forecast.case.far), []).append(
                forecast.system.name
            )
    for (label, far), systems in systems_of.items():
        yield f"Far out, {label} ({', '.join(systems)}): {far}."


def as_json(forecast: ScenarioForecast) -> dict[str, Any]:
    """Return the same for programs."""
    case = forecast.case
    return {
        "nearest": [
            {
                "scenario_id": near.neighbour.scenario_id,
                "scenario": near.neighbour.label,
                "distance": near.distance,
                "error_percent": near.neighbour.error,
                "split": near.neighbour.split,
            }
            for near in case.nearest
        ],
        "nearest_mape_percent": case.error,
        "nearest_inside": case.inside,
        "nearest_intervals": case.intervals,
        "far_out": case.far,
        "corrected_by": forecast.corrected_by,
    }


def _named(near: NeighbourDistance) -> str:
    return f"{near.neighbour.label} (distance {near.distance:.1f})"


# What to know of forecasts before they are used: whose steps and forecasts, and what changed.


def evidence_lines(answer: ForecastAnswer) -> Iterator[str]:
    """Yield all of it."""
    yield from foreign_step_lines(answer)
    yield from fallback_lines(answer.forecasts)
    yield from change_lines(answer.forecasts)


def foreign_step_lines(answer: ForecastAnswer) -> Iterator[str]:
    """Yield a line for the systems whose forecasts rest on steps of other hosts."""
    host = answer.place.host_id
    systems_of: dict[tuple[int, tuple[str, ...]], dict[str, None]] = {}
    for forecast in answer.forecasts:
        runs = [run for run in forecast.fit.runs if run.backend != "imported"]
        hosts = {run.host_id for run in runs} - {host}
        if hosts:
            steps = sum(run.host_id == host and run.subject.scenario is not None for run in runs)
            systems_of.setdefault((steps, tuple(sorted(hosts))), {})[forecast.system.name] = None
    for (steps, others), systems in systems_of.items():
        known = f"no step of host {host} is known"
        if steps:
            known = f"host {host} has only {count(steps, 'run')}"
        yield (
            f"{', '.join(systems)}: {known}. The forecasts rest on steps of {name_some(others)}, "
            "and on inventories of the nodes there and here."
        )


def fallback_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each system that gave another's forecasts."""
    labels_of: dict[tuple[str, str], list[str]] = {}
    for forecast in forecasts:
        if forecast.answered_by is not None:
            labels_of.setdefault((forecast.system.name, forecast.answered_by), []).append(
                label(forecast)
            )
    for (system, other), labels in labels_of.items():
        yield (
            f"{system}: of {name_some(labels)} the forecast is that of {other}, because on "
            f"families of networks left out {system} was not better with confidence."
        )


def change_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each node type that has changed since it was profiled."""
    for change in dict.fromkeys(change for forecast in forecasts for change in forecast.changed):
        systems = dict.fromkeys(
            forecast.system.name for forecast in forecasts if change in forecast.changed
        )
        how = f"{abs(change.percent):.0f} % {'worse' if change.percent > 0 else 'better'}"
        yield (
            f"Stale: {change.node_type} has changed since it was profiled "
            f"({in_words(change.metric)} {how}, confirmed {change.since:%Y-%m-%d %H:%M}); "
            f"forecasts of {', '.join(systems)} rest on profiles from before. `stepcast fleet run "
            f"{change.node_type}` profiles it again."
        )
