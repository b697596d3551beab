"""What to know of forecasts before they are used: whose steps and forecasts, and what changed."""

from collections.abc import Iterator, Sequence

from fleet.readings import in_words
from forecasting.asked.answer import Answer, Forecast
from pipelines.cli.nearby import label
from studies.words import count, some


def of(answer: Answer) -> Iterator[str]:
    """Yield all of it."""
    yield from travelled(answer)
    yield from fallbacks(answer.forecasts)
    yield from changes(answer.forecasts)


def travelled(answer: Answer) -> Iterator[str]:
    """Yield a line for the systems whose forecasts rest on steps of other hosts."""
    here = answer.place.host_id
    found: dict[tuple[int, tuple[str, ...]], dict[str, None]] = {}
    for one in answer.forecasts:
        hosts = {run.host_id for run in one.fit.runs} - {here}
        if hosts:
            steps = sum(
                run.host_id == here and run.subject.scenario is not None for run in one.fit.runs
            )
            found.setdefault((steps, tuple(sorted(hosts))), {})[one.system.name] = None
    for (steps, others), systems in found.items():
        known = f"no step of host {here} is known"
        if steps:
            known = f"host {here} has only {count(steps, 'run')}"
        yield (
            f"{', '.join(systems)}: {known}. The forecasts rest on steps of {some(others)}, "
            "and on inventories of the nodes there and here."
        )


def fallbacks(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a line for each system that gave another's forecasts."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in forecasts:
        if one.answered_by is not None:
            found.setdefault((one.system.name, one.answered_by), []).append(label(one))
    for (system, other), labels in found.items():
        yield (
            f"{system}: of {some(labels)} the forecast is that of {other}, because on families of "
            f"networks left out {system} was not better with confidence."
        )


def changes(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a line for each node type that has changed since it was profiled."""
    for one in dict.fromkeys(change for forecast in forecasts for change in forecast.changed):
        systems = dict.fromkeys(
            forecast.system.name for forecast in forecasts if one in forecast.changed
        )
        how = f"{abs(one.percent):.0f} % {'worse' if one.percent > 0 else 'better'}"
        yield (
            f"Stale: {one.node_type} has changed since it was profiled "
            f"({in_words(one.metric)} {how}, confirmed {one.since:%Y-%m-%d %H:%M}); forecasts of "
            f"{', '.join(systems)} rest on profiles from before. `stepcast fleet run "
            f"{one.node_type}` profiles it again."
        )
