"""What to know of a forecast: nearest judged cases, foreign steps, what has changed, prices."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TypeVar

from fleet.readings import in_words
from forecasting.forecast import ForecastAnswer, ScenarioForecast
from pipelines.cli.answers import label
from studies.messages import count, name_some
from warehouse.records import Price

_NAMED = 3
"""How many of the nearest are named; JSON has all."""
K = TypeVar("K", bound=Hashable)


def forecast_lines(answer: ForecastAnswer) -> Iterator[str]:
    """Yield all of it."""
    uncorrected = [each for each in answer.forecasts if each.corrected_by is None]
    yield from _foreign_step_lines(answer)
    yield from _fallback_lines(answer.forecasts)
    for by, systems in _systems_by(answer.forecasts, lambda each: each.corrected_by):
        yield f"{systems}: corrected by {by}."
    for (about, nearest), systems in _systems_by(uncorrected, _nearest):
        yield f"Nearest to {about} ({systems}): {nearest}."
    for (about, far), systems in _systems_by(
        uncorrected, lambda each: each.far and (each.scenario.label, each.far)
    ):
        yield f"Far out, {about} ({systems}): {far}."
    yield from _change_lines(answer.forecasts)


def cautions(answer: ForecastAnswer) -> Iterator[str]:
    """Yield whose steps and forecasts these are, and which node types have changed."""
    yield from _foreign_step_lines(answer)
    yield from _fallback_lines(answer.forecasts)
    yield from _change_lines(answer.forecasts)


def _systems_by(
    forecasts: Iterable[ScenarioForecast], key: Callable[[ScenarioForecast], K | None]
) -> Iterator[tuple[K, str]]:
    """Yield what is known of forecasts, and the systems of which it is."""
    systems_of: dict[K, dict[str, None]] = {}
    for forecast in forecasts:
        if known := key(forecast):
            systems_of.setdefault(known, {})[forecast.system.name] = None
    for known, systems in systems_of.items():
        yield known, ", ".join(systems)


def _nearest(forecast: ScenarioForecast) -> tuple[str, str] | None:
    near = [
        f"{neighbour.label} (distance {distance:.1f})"
        for neighbour, distance in forecast.nearest[:_NAMED]
    ]
    return (forecast.scenario.label, "; ".join(near)) if near else None


def _foreign_step_lines(answer: ForecastAnswer) -> Iterator[str]:
    """Yield a line for the systems whose forecasts rest on steps of other hosts."""
    host = answer.chosen_host.host_id

    def foreign(forecast: ScenarioForecast) -> tuple[int, tuple[str, ...]] | None:
        runs = [run for run in forecast.fit.runs if run.backend != "imported"]
        others = tuple(sorted({run.host_id for run in runs} - {host}))
        steps = sum(run.host_id == host and run.subject.scenario is not None for run in runs)
        return (steps, others) if others else None

    for (steps, others), systems in _systems_by(answer.forecasts, foreign):
        known = f"no step of host {host} is known"
        if steps:
            known = f"host {host} has only {count(steps, 'run')}"
        yield (
            f"{systems}: {known}. The forecasts rest on steps of {name_some(others)}, and on "
            "inventories of the nodes there and here."
        )


def _fallback_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each system that gave another's forecasts."""
    labels_of: dict[tuple[str, str], list[str]] = {}
    for forecast in forecasts:
        if (other := forecast.answered_by) is not None:
            of = labels_of.setdefault((forecast.system.name, other), [])
            of.append(label(forecast.scenario))
    for (system, other), labels in labels_of.items():
        yield (
            f"{system}: of {name_some(labels)} the forecast is that of {other}, because on "
            f"families of networks left out {system} was not better with confidence."
        )


def _change_lines(forecasts: Sequence[ScenarioForecast]) -> Iterator[str]:
    """Yield a line for each node type that has changed since it was profiled."""
    for change in dict.fromkeys(change for forecast in forecasts for change in forecast.changed):
        systems = dict.fromkeys(each.system.name for each in forecasts if change in each.changed)
        how = f"{abs(change.percent):.0f} % {'worse' if change.percent > 0 else 'better'}"
        yield (
            f"Stale: {change.node_type} has changed since it was profiled "
            f"({in_words(change.metric)} {how}, confirmed {change.since:%Y-%m-%d %H:%M}); "
            f"forecasts of {', '.join(systems)} rest on profiles from before. `stepcast fleet run "
            f"{change.node_type}` profiles it again."
        )


def prices_in_words(prices: Iterable[Price]) -> str:
    """Return the prices; those of one market, place, source and date stand together."""
    alike: dict[str, list[str]] = {}
    for price in prices:
        market, place = price.market.replace("_", " "), price.zone or price.region or "any region"
        of = alike.setdefault(f"{market} in {place} ({_origin(price)})", [])
        of.append(f"{price.node_type} ${price.usd_per_hour:g}/h")
    return "; ".join(f"{', '.join(of)} {where}" for where, of in alike.items())


def _origin(price: Price) -> str:
    """Return the source and the date, or the year where no more is known."""
    when = price.observed_at
    if when is None:
        return price.source
    only_year = when == datetime(when.year, 1, 1, tzinfo=UTC)
    return f"{price.source}, {when:{'%Y' if only_year else '%Y-%m-%d'}}"
