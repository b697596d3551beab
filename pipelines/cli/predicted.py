"""What `stepcast predict` prints: forecasts with their past errors, refusals, what to measure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
import yaml
from rich import box
from rich.table import Table

from fleet.readings import in_words
from forecasting.asked.answer import Answer, Forecast, Refused
from forecasting.asked.lacking import minutes
from pipelines.cli import nearby
from pipelines.cli.nearby import past
from pipelines.cli.own import LEARNING, Own, to_profile
from pipelines.cli.priced import priced
from pipelines.cli.tables import console
from studies.words import count, some

FILE = "asked.yaml"
_SCENARIO_CHARACTERS = 23
Listed = Sequence[Mapping[str, object]]


def print_json(answer: Answer, own: Own | None = None) -> None:
    """Print an answer as one JSON object; of a model of the user's own, with what it is."""
    typer.echo(
        json.dumps(
            {
                **({} if own is None else {"model": own.as_json()}),
                "backend": answer.place.backend,
                "host_id": answer.place.host_id,
                "this_host": answer.place.is_here,
                "forecasts": [_forecast(one) for one in answer.forecasts],
                "refused": [_refused(one) for one in answer.refused],
                "written": answer.written,
            },
            ensure_ascii=False,
        )
    )


def print_answer(answer: Answer, listed: Listed, *, named: bool, own: Own | None = None) -> None:
    """Print an answer for people.

    Args:
        answer: of all systems.
        listed: the templates that were asked about, to be copied into a study file.
        named: whether the systems were named; else those about other training share a line.
        own: the user's model that was asked about, if it is one.
    """
    if own is not None:
        typer.echo(own.in_words)
    place = answer.place
    whose = "this host" if place.is_here else f"host {place.host_id}, which is not this one"
    typer.echo(f"Backend {place.backend}, {whose}.")
    if answer.forecasts:
        console().print(_table(answer.forecasts))
    if prices := dict.fromkeys(
        price for one in answer.forecasts if one.cost for price in one.cost.prices
    ):
        typer.echo(f"Prices: {priced(prices)}.")
    for one in answer.forecasts:
        if one.value is None:
            typer.echo(f"{one.system.name} knows only an interval of {_label(one)}: {one.unknown}")
    for told in (_fallbacks, nearby.corrections, nearby.named, nearby.beyond):
        for line in told(answer.forecasts):
            typer.echo(line)
    for line in _changes(answer.forecasts):
        typer.echo(line)
    for line in _refusals(answer, named=named):
        typer.echo(line)
    for line in _to_measure(answer, listed) if own is None else to_profile(answer, own):
        typer.echo(line)
    if answer.written:
        new = "is" if answer.written == 1 else "are"
        forecasts = count(answer.written, "forecast")
        typer.echo(f"{forecasts} {new} new in the ledger, marked as merely asked for.")


def _table(forecasts: Sequence[Forecast]) -> Table:
    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column("scenario", overflow="fold", max_width=_SCENARIO_CHARACTERS)
    table.add_column("system", no_wrap=True)
    for title in ("forecast", "interval"):
        table.add_column(title, justify="right", no_wrap=True)
    for title in ("$/h", "$/10⁶\nsamples"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("runs", no_wrap=True)
    table.add_column("split", no_wrap=True)
    table.add_column("past error there", overflow="fold")
    previous = None
    for one in forecasts:
        table.add_row(
            _label(one) if one.scenario != previous else "",
            one.system.name,
            "only an interval" if one.value is None else f"{one.value:.4g} {one.metric.unit}",
            "-" if one.low is None or one.high is None else f"{one.low:.3g} to {one.high:.3g}",
            "-" if one.cost is None else f"{one.cost.usd_per_hour:.4g}",
            "-" if (usd := one.usd_per_million_samples) is None else f"{usd:.3g}",
            f"{len(one.fit.runs)}, {_age(one.fit.runs[0].started_at)} old",
            one.split.replace("_", " "),
            past(one),
        )
        previous = one.scenario
    return table


def _label(one: Forecast | Refused) -> str:
    """Return the label of a scenario, with the type of its workers where that lacks it."""
    label = one.scenario.label
    types = dict.fromkeys(group.node_type for group in one.scenario.worker_groups)
    return label if all(name in label for name in types) else f"{label} ({' + '.join(types)})"


def _age(then: datetime) -> str:
    age = datetime.now(UTC) - then
    if age < timedelta(hours=1):
        return f"{max(age, timedelta(0)).seconds // 60} min"
    return f"{age.days} d" if age >= timedelta(days=2) else f"{age / timedelta(hours=1):.0f} h"


def _fallbacks(forecasts: Sequence[Forecast]) -> Iterator[str]:
    """Yield a line for each system that gave another's forecasts."""
    found: dict[tuple[str, str], list[str]] = {}
    for one in forecasts:
        if one.answered_by is not None:
            found.setdefault((one.system.name, one.answered_by), []).append(_label(one))
    for (system, other), labels in found.items():
        yield (
            f"{system}: of {some(labels)} the forecast is that of {other}, because on families of "
            f"networks left out {system} was not better with confidence."
        )


def _changes(forecasts: Sequence[Forecast]) -> Iterator[str]:
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


def _refusals(answer: Answer, *, named: bool) -> Iterator[str]:
    """Yield a line for each system and reason, and one for all systems about other training."""
    answers: list[Forecast | Refused] = [*answer.forecasts, *answer.refused]
    everything = len({one.scenario for one in answers})
    by_reason: dict[tuple[str, str], list[Refused]] = {}
    foreign: dict[str, None] = {}
    for one in answer.refused:
        if one.foreign and not named:
            foreign[one.system.name] = None
        else:
            by_reason.setdefault((one.system.name, one.reason), []).append(one)
    for (system, reason), ours in by_reason.items():
        takes = max((minutes(one.lacking) or 0.0 for one in ours if one.lacking), default=None)
        about = "" if not takes else f"; about {max(takes, 1):.0f} min"
        about += " for each" if takes and any(one.of_train for one in ours[0].lacking) else ""
        told = len(ours) == everything or ours[0].scenario.label in reason
        of = "" if told else f" ({some([_label(one) for one in ours])})"
        yield f"{system}: {reason}{about}{of}"
    if foreign:
        yield f"About other training: {', '.join(foreign)}."


def _to_measure(answer: Answer, listed: Listed) -> Iterator[str]:
    """Yield a study file that measures what is lacking, as far as the scenarios themselves say."""
    systems = dict.fromkeys(
        one.system.name
        for one in answer.refused
        if one.lacking and not any(needed.of_train for needed in one.lacking)
    )
    learning = any(needed.of_train for one in answer.refused for needed in one.lacking)
    if systems:
        yield f"To measure that, and then the forecasts, `stepcast run {FILE}`, a file with:"
        yield "  name: asked"
        yield f"  systems: [{', '.join(systems)}]"
        yield "  test:"
        for one in listed:
            yield f"  - {_on_one_line(one)}"
    if learning:
        yield LEARNING


def _on_one_line(template: Mapping[str, object]) -> str:
    text = yaml.safe_dump(dict(template), default_flow_style=True, sort_keys=False, width=10**6)
    return str(text).strip()


def _forecast(one: Forecast) -> dict[str, Any]:
    oldest, newest = one.fit.runs[-1], one.fit.runs[0]
    judged = one.past
    return {
        **_whose(one),
        "model_version": one.system.version,
        "metric": one.metric.name,
        "unit": one.metric.unit,
        "value": one.value,
        "low": one.low,
        "high": one.high,
        "unknown": one.unknown,
        "answered_by": one.answered_by or one.system.name,
        "usd_per_hour": one.cost and one.cost.usd_per_hour,
        "usd_per_million_samples": one.usd_per_million_samples,
        "price_snapshot": one.cost and one.cost.snapshot,
        "fit_id": one.fit.fit_id,
        "fitted_at": one.fit.fitted_at.isoformat(),
        "runs": len(one.fit.runs),
        "oldest_run_at": oldest.started_at.isoformat(),
        "newest_run_at": newest.started_at.isoformat(),
        "split": one.split,
        "past_mape_percent": judged and judged.mape,
        "past_n": judged.n if judged else 0,
        "noise_floor_percent": judged and judged.noise_floor,
        "noise_n": judged.noise_n if judged else 0,
        **nearby.as_json(one),
        "changed_since": [
            {
                "node_type": change.node_type,
                "since": change.since.isoformat(),
                "metric": change.metric,
                "percent_worse": change.percent,
            }
            for change in one.changed
        ],
    }


def _refused(one: Refused) -> dict[str, Any]:
    return {
        **_whose(one),
        "reason": one.reason,
        "foreign": one.foreign,
        "lacking": [
            {
                "probe": needed.probe,
                "of": needed.of,
                "minutes": needed.minutes,
                "of_train": needed.of_train,
            }
            for needed in one.lacking
        ],
    }


def _whose(one: Forecast | Refused) -> dict[str, str]:
    return {
        "scenario_id": one.scenario.scenario_id,
        "scenario": _label(one),
        "system": one.system.name,
    }
