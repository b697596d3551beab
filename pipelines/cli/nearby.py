"""What `stepcast predict` says of the judged scenarios that are nearest to what is asked about."""

from collections.abc import Iterator, Sequence
from typing import Any

from forecasting.asked.answer import Forecast, Refused
from forecasting.asked.near import Near

_NAMED = 3
"""How many of the nearest are named; JSON has all."""


def label(one: Forecast | Refused) -> str:
    """Return the label of a scenario, with the type of its workers where that lacks it."""
    text = one.scenario.label
    types = dict.fromkeys(group.node_type for group in one.scenario.worker_groups)
    return text if all(name in text for name in types) else f"{text} ({' + '.join(types)})"


def at_split(one: Forecast) -> str:
    """Return how wrong a system has been at this split."""
    if one.corrected_by is not None:
        return "corrected"
    return "never judged" if one.past is None else f"{one.past.mape:.1f} %, n = {one.past.n}"


def noise(one: Forecast) -> str:
    """Return how much repeats differ of what a system has been judged by."""
    if one.corrected_by is not None or one.past is None:
        return ""
    floor = one.past.noise_floor
    return "not known" if floor is None else f"{floor:.1f} %, n = {one.past.noise_n}"


def of_nearest(one: Forecast) -> str:
    """Return how wrong a system has been of the nearest scenarios."""
    case = one.case
    if one.corrected_by is not None or case.error is None:
        return ""
    inside = f", {case.inside} of {case.intervals} inside" if case.intervals else ""
    return f"{case.error:.1f} %, n = {len(case.nearest)}{inside}"


def named(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a line for each scenario: the nearest that were judged, and for which systems."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for one in forecasts:
        if one.case.nearest and one.corrected_by is None:
            near = tuple(_named(near) for near in one.case.nearest[:_NAMED])
            found.setdefault((one.scenario.label, near), []).append(one.system.name)
    for (label, near), systems in found.items():
        yield f"Nearest to {label} ({', '.join(systems)}): {'; '.join(near)}."


def corrections(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a line for each measured step that corrected forecasts of a system."""
    told = ((one.system.name, one.corrected_by) for one in forecasts if one.corrected_by)
    for system, by in dict.fromkeys(told):
        yield f"{system}: corrected by {by}."


def beyond(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a line for each way in which forecasts are farther out than any that was judged."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in forecasts:
        if one.case.far is not None and one.corrected_by is None:
            found.setdefault((one.scenario.label, one.case.far), []).append(one.system.name)
    for (label, far), systems in found.items():
        yield f"Far out, {label} ({', '.join(systems)}): {far}."


def as_json(one: Forecast) -> dict[str, Any]:
    """Return the same for programs."""
    case = one.case
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
        "corrected_by": one.corrected_by,
    }


def _named(near: Near) -> str:
    return f"{near.neighbour.label} (distance {near.distance:.1f})"
