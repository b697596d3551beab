"""What `stepcast predict` prints, in tables or JSON: forecasts, past errors, refusals."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import typer
import yaml

from forecasting.costs import samples_per_s
from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.inputs import total_minutes
from forecasting.scope import ForecastRefusal
from pipelines.cli import evidence
from pipelines.cli.device_answer import efficiency, print_devices
from pipelines.cli.evidence import label
from pipelines.cli.prices import prices_in_words
from pipelines.cli.tables import TableColumn, print_rows, print_text, significant
from pipelines.cli.workload import OwnWorkload, advice, profile_commands
from studies.messages import count, name_some
from warehouse.records import BadInput, Scenario

FILE = "asked.yaml"
_ALONE = (
    "Asked about is one device alone (single); with `--workers 1` it is a replica of "
    "DistributedDataParallel (all_reduce), which other systems know."
)
_MANY = 3
"""Systems that share a line."""
Listed = Sequence[Mapping[str, object]]


def print_answer(
    answer: ForecastAnswer,
    listed: Listed,
    *,
    named: bool,
    own: OwnWorkload | None = None,
    dataset_samples: int | None = None,
    explain: bool = False,
) -> None:
    """Print an answer for people.

    Args:
        answer: of all systems.
        listed: the templates that were asked about, to be copied into a study file.
        named: whether the systems were named; else those about other training share a line.
        own: the user's model that was asked about, if it is one.
        dataset_samples: of an epoch, whose time is shown; None: of none.
        explain: whether details of steps of single devices follow, and why others say nothing where
            each of them has a forecast.
    """
    if own is not None:
        print_text(own.in_words)
    for line in answer.place.in_words():
        print_text(line)
    of_devices = [forecast for forecast in answer.forecasts if forecast.detail is not None]
    others = [forecast for forecast in answer.forecasts if forecast.detail is None]
    if of_devices:
        print_devices(of_devices, dataset_samples, explain=explain)
    if others:
        print_rows(*_table(others, dataset_samples))
    if prices := dict.fromkeys(
        price for forecast in answer.forecasts if forecast.cost for price in forecast.cost.prices
    ):
        print_text(f"Prices: {prices_in_words(prices)}.")
    for forecast in answer.forecasts:
        if forecast.value is None:
            name = forecast.system.name
            print_text(f"{name} knows only an interval of {label(forecast)}: {forecast.unknown}")
    for line in (*evidence.foreign_step_lines(answer), *evidence.fallback_lines(answer.forecasts)):
        print_text(line)
    for lines_of in (
        evidence.correction_lines,
        evidence.nearest_lines,
        evidence.far_out_lines,
        evidence.change_lines,
    ):
        for line in lines_of(answer.forecasts):
            print_text(line)
    answered = {forecast.scenario for forecast in of_devices}
    left = [refusal for refusal in answer.refused if refusal.scenario not in answered]
    if (
        answered
        and not (named or explain or others)
        and all(_is_alone(refusal.scenario) for refusal in left)
    ):
        systems = {forecast.system.name for forecast in of_devices}
        refusals = tuple(refusal for refusal in left if refusal.system.name in systems)
        for line in _refusals(replace(answer, refused=refusals), named=named):
            print_text(line)
        if len(refusals) < len(answer.refused):
            print_text("Other systems have no forecast; --explain says why.")
    else:
        for line in _refusals(answer, named=named):
            print_text(line)
        if not answer.forecasts and any(_is_alone(refusal.scenario) for refusal in answer.refused):
            print_text(_ALONE)
        for line in _to_measure(answer, listed) if own is None else profile_commands(answer, own):
            print_text(line)
    if answer.written:
        new = "is" if answer.written == 1 else "are"
        forecasts = count(answer.written, "forecast")
        print_text(f"{forecasts} {new} new in the ledger, marked as merely asked for.")


def _is_alone(scenario: Scenario) -> bool:
    return scenario.strategy.kind == "single"


def _table(
    forecasts: Sequence[ScenarioForecast], dataset_samples: int | None
) -> tuple[list[TableColumn], list[list[str]]]:
    """Return the columns of forecasts, and their rows."""
    columns = [
        TableColumn("scenario", is_key=True, is_heading=True),
        TableColumn("system", is_key=True),
        TableColumn("forecast", is_key=True, is_number=True),
        TableColumn("interval", is_key=True, is_number=True),
        *([] if dataset_samples is None else [TableColumn("epoch", is_number=True)]),
        TableColumn("$/h", is_number=True),
        TableColumn("$/10⁶ samples", is_number=True),
        TableColumn("past error there", is_key=True),
        TableColumn("noise floor"),
        TableColumn("past error nearest"),
        TableColumn("split"),
        TableColumn("runs"),
    ]
    rows = [
        [
            label(forecast),
            forecast.system.name,
            "only an interval"
            if forecast.value is None
            else f"{forecast.value:.4g} {forecast.metric.unit}",
            "-"
            if forecast.low is None or forecast.high is None
            else f"{forecast.low:.3g} to {forecast.high:.3g}",
            *([] if dataset_samples is None else [in_words(forecast, dataset_samples)]),
            "-"
            if forecast.cost is None
            else f"{forecast.cost.usd_per_hour:,.4f}".rstrip("0").rstrip("."),
            "-" if (usd := forecast.usd_per_million_samples) is None else significant(usd),
            evidence.at_split(forecast),
            evidence.noise(forecast),
            evidence.of_nearest(forecast),
            forecast.split.replace("_", " "),
            f"{len(forecast.fit.runs)}, {_age(forecast.fit.runs[0].started_at)} old",
        ]
        for forecast in forecasts
    ]
    return columns, rows


def _age(then: datetime) -> str:
    age = datetime.now(UTC) - then
    if age < timedelta(hours=1):
        return f"{max(age, timedelta(0)).seconds // 60} min"
    return f"{age.days} d" if age >= timedelta(days=2) else f"{age / timedelta(hours=1):.0f} h"


def _refusals(answer: ForecastAnswer, *, named: bool) -> Iterator[str]:
    """Yield a line for each reason, and one for all systems about other training.

    Systems share a line where many have one reason, such as a precision that they do not know.
    """
    answers: list[ScenarioForecast | ForecastRefusal] = [*answer.forecasts, *answer.refused]
    everything = len({answer.scenario for answer in answers})
    by_reason: dict[tuple[str, str], list[ForecastRefusal]] = {}
    foreign: dict[str, None] = {}
    for refusal in answer.refused:
        if refusal.foreign and not named:
            foreign[refusal.system.name] = None
        else:
            by_reason.setdefault((refusal.system.name, refusal.reason), []).append(refusal)
    lines: dict[tuple[str, bool], list[str]] = {}
    for (system, reason), refusals in by_reason.items():
        takes = max(
            (total_minutes(refusal.lacking) or 0.0 for refusal in refusals if refusal.lacking),
            default=None,
        )
        about = "" if not takes else f"; about {max(takes, 1):.0f} min"
        about += (
            " for each"
            if takes and any(missing.of_train for missing in refusals[0].lacking)
            else ""
        )
        is_clear = len(refusals) == everything or refusals[0].scenario.label in reason
        of = "" if is_clear else f" ({name_some([label(refusal) for refusal in refusals])})"
        lacks = any(refusal.lacking for refusal in refusals)
        lines.setdefault((f"{reason}{about}{of}", lacks), []).append(system)
    for (line, lacks), whose in lines.items():
        together = len(whose) >= _MANY and not lacks
        for some in [whose] if together else [[system] for system in whose]:
            yield f"{', '.join(some)}: {line}"
    if foreign:
        yield f"For other kinds of training: {', '.join(foreign)}."


def _to_measure(answer: ForecastAnswer, listed: Listed) -> Iterator[str]:
    """Yield a study file that measures what is lacking, as far as the scenarios themselves say."""
    systems = dict.fromkeys(
        refusal.system.name
        for refusal in answer.refused
        if refusal.lacking
        and not refusal.system.transfers_across_hosts
        and not any(needed.of_train for needed in refusal.lacking)
    )
    if systems:
        yield f"To measure that, and then the forecasts, `stepcast run {FILE}`, a file with:"
        yield "  name: asked"
        yield f"  systems: [{', '.join(systems)}]"
        yield "  test:"
        for template in listed:
            yield f"  - {_on_one_line(template)}"
    yield from advice(answer)


def _on_one_line(template: Mapping[str, object]) -> str:
    text = yaml.safe_dump(dict(template), default_flow_style=True, sort_keys=False, width=10**6)
    return str(text).strip()


# What `stepcast predict --json` prints: forecasts with their past errors, and refusals.


def print_json(
    answer: ForecastAnswer, own: OwnWorkload | None = None, dataset_samples: int | None = None
) -> None:
    """Print an answer as one JSON object; of a model of the user's own, with what it is."""
    typer.echo(
        json.dumps(
            {
                **({} if own is None else {"model": own.as_json()}),
                "backend": answer.place.backend,
                "host_id": answer.place.host_id,
                "this_host": answer.place.is_here,
                "forecasts": [
                    forecast_as_json(forecast, dataset_samples) for forecast in answer.forecasts
                ],
                "refused": [refusal_as_json(refusal) for refusal in answer.refused],
                "written": answer.written,
            },
            ensure_ascii=False,
        )
    )


def forecast_as_json(forecast: ScenarioForecast, dataset_samples: int | None) -> dict[str, Any]:
    """Return a forecast: its figures, what it rests on, and how wrong such ones have been."""
    oldest, newest = forecast.fit.runs[-1], forecast.fit.runs[0]
    judged = forecast.past
    epoch = None if dataset_samples is None else epoch_s(forecast, dataset_samples)
    return {
        **_whose(forecast),
        "model_version": forecast.system.version,
        "metric": forecast.metric.name,
        "unit": forecast.metric.unit,
        "value": forecast.value,
        "low": forecast.low,
        "high": forecast.high,
        "unknown": forecast.unknown,
        "detail": forecast.detail,
        "answered_by": forecast.answered_by or forecast.system.name,
        "epoch_s": epoch,
        "usd_per_hour": forecast.cost and forecast.cost.usd_per_hour,
        "usd_per_million_samples": forecast.usd_per_million_samples,
        **efficiency(forecast),
        "price_snapshot": forecast.cost and forecast.cost.snapshot,
        "fit_id": forecast.fit.fit_id,
        "fitted_at": forecast.fit.fitted_at.isoformat(),
        "runs": len(forecast.fit.runs),
        "hosts": sorted({run.host_id for run in forecast.fit.runs}),
        "oldest_run_at": oldest.started_at.isoformat(),
        "newest_run_at": newest.started_at.isoformat(),
        "split": forecast.split,
        "past_mape_percent": judged and judged.mape,
        "past_n": judged.n if judged else 0,
        "noise_floor_percent": judged and judged.noise_floor,
        "noise_n": judged.noise_n if judged else 0,
        **evidence.as_json(forecast),
        "changed_since": [
            {
                "node_type": change.node_type,
                "since": change.since.isoformat(),
                "metric": change.metric,
                "percent_worse": change.percent,
            }
            for change in forecast.changed
        ],
    }


def refusal_as_json(refusal: ForecastRefusal) -> dict[str, Any]:
    """Return a refusal: of what, by whom, why, and what it lacks."""
    return {
        **_whose(refusal),
        "reason": refusal.reason,
        "foreign": refusal.foreign,
        "lacking": [
            {
                "probe": needed.probe,
                "of": needed.of,
                "minutes": needed.minutes,
                "of_train": needed.of_train,
            }
            for needed in refusal.lacking
        ],
    }


def _whose(answer: ScenarioForecast | ForecastRefusal) -> dict[str, str]:
    return {
        "scenario_id": answer.scenario.scenario_id,
        "scenario": label(answer),
        "system": answer.system.name,
    }


# Forecasts as the time of an epoch: so many samples, by all workers together.


_UNITS = ((3600.0, "h"), (60.0, "min"), (0.0, "s"))


def check_samples(samples: int | None) -> None:
    """Refuse an epoch without samples.

    Raises:
        BadInput: it has none.
    """
    if samples is not None and samples < 1:
        raise BadInput(f"--dataset-samples: expected a number above 0, found {samples}")


def epoch_s(
    forecast: ScenarioForecast, samples: int
) -> tuple[float, float | None, float | None] | None:
    """Return the seconds of an epoch as forecast, at least and at most; None if none is forecast.

    Args:
        forecast: of the time of a step, or of steps a second.
        samples: of the epoch.
    """
    value, low, high = (
        _seconds(forecast, amount, samples)
        for amount in (forecast.value, forecast.low, forecast.high)
    )
    if value is None:
        return None
    if low is None or high is None:
        return value, None, None
    return value, min(low, high), max(low, high)


def in_words(forecast: ScenarioForecast, samples: int) -> str:
    """Return the time of an epoch and its interval, in one unit."""
    epoch = epoch_s(forecast, samples)
    if epoch is None:
        return "-"
    value, low, high = epoch
    least_s, unit = next(each for each in _UNITS if value >= each[0])
    numbers = [f"{some / (least_s or 1):.3g}" for some in (value, low, high) if some is not None]
    interval = f" ({numbers[1]} to {numbers[2]})" if len(numbers) > 1 else ""
    return f"{numbers[0]} {unit}{interval}"


def _seconds(forecast: ScenarioForecast, value: float | None, samples: int) -> float | None:
    if value is None or not value > 0:
        return None
    speed = samples_per_s(forecast.scenario, forecast.metric.name, value)
    return None if speed is None else samples / speed
