"""What `stepcast predict` prints for people: forecasts, past errors, refusals, what to measure."""

from collections.abc import Iterator, Mapping, Sequence

import yaml

from forecasting.forecast import ForecastAnswer, ScenarioForecast
from forecasting.inputs import total_minutes
from forecasting.scope import ForecastRefusal
from pipelines.cli import evidence
from pipelines.cli.answers import epoch_s, label
from pipelines.cli.device_answer import print_devices
from pipelines.cli.own_workload import advice, profile_commands
from pipelines.cli.questions import AnsweredForecasts
from pipelines.cli.tables import duration_unit, print_rows, print_text, significant
from studies.messages import count, name_some
from warehouse.records import Scenario

FILE = "asked.yaml"
_SINGLE = (
    "Asked about is one device alone (single); with `--workers 1` it is a replica of "
    "DistributedDataParallel (all_reduce), which other systems know."
)
_NUMBERS = ("forecast", "interval", "epoch", "$/10⁶ samples")
_MANY = 3
"""Systems that share a line."""


def print_answer(
    answered: AnsweredForecasts, dataset_samples: int | None, *, named: bool, explain: bool
) -> None:
    """Print an answer.

    Args:
        answered: of all systems.
        dataset_samples: of an epoch, whose time is shown; None: of none.
        named: whether the systems were named; else those about other training share a line.
        explain: whether details of steps of single devices follow, and why others say nothing where
            each of them has a forecast.
    """
    answer, own = answered.answer, answered.own
    if own is not None:
        print_text(own.in_words)
    print_text(*answer.chosen_host.in_words())
    of_devices = [forecast for forecast in answer.forecasts if forecast.detail is not None]
    others = [forecast for forecast in answer.forecasts if forecast.detail is None]
    if of_devices:
        print_devices(of_devices, dataset_samples, explain=explain)
    if others:
        rows = [_cells(forecast, dataset_samples) for forecast in others]
        print_rows(rows, _NUMBERS, has_headings=True)
    if prices := dict.fromkeys(
        price for forecast in answer.forecasts for price in forecast.prices or ()
    ):
        print_text(f"Prices: {evidence.prices_in_words(prices)}.")
    for forecast in answer.forecasts:
        if forecast.value is None:
            name = forecast.system.name
            print_text(
                f"{name} knows only an interval of {label(forecast.scenario)}: {forecast.unknown}"
            )
    print_text(*evidence.forecast_lines(answer), *_refusals(answered, named, explain))
    if answer.written:
        new = "is" if answer.written == 1 else "are"
        forecasts = count(answer.written, "forecast")
        print_text(f"{forecasts} {new} new in the ledger, marked as merely asked for.")


def _cells(forecast: ScenarioForecast, dataset_samples: int | None) -> dict[str, str]:
    """Return a row of the table."""
    low, high, usd = forecast.low, forecast.high, forecast.usd_per_million_samples
    unit, value = forecast.metric.unit, forecast.value
    epoch = {"epoch": epoch_in_words(forecast, dataset_samples)} if dataset_samples else {}
    return {
        "": label(forecast.scenario),
        "system": forecast.system.name,
        "forecast": "only an interval" if value is None else f"{value:.4g} {unit}",
        "interval": "-" if low is None or high is None else f"{low:.3g} to {high:.3g}",
        **epoch,
        "$/10⁶ samples": "-" if usd is None else significant(usd),
        "past error there": _past_error(forecast),
        "split": forecast.split.replace("_", " "),
    }


def _past_error(forecast: ScenarioForecast) -> str:
    """Return how wrong a system has been at this split."""
    if forecast.corrected_by is not None:
        return "corrected"
    past = forecast.past
    return "never judged" if past is None else f"{past['mape']:.1f} %, n = {past['n']}"


def epoch_in_words(forecast: ScenarioForecast, samples: int) -> str:
    """Return the time of an epoch and its interval, in one unit."""
    epoch = epoch_s(forecast, samples)
    if epoch is None:
        return "-"
    unit_s, unit = duration_unit(epoch[0])
    numbers = [f"{some / unit_s:.3g}" for some in epoch if some is not None]
    interval = f" ({numbers[1]} to {numbers[2]})" if len(numbers) > 1 else ""
    return f"{numbers[0]} {unit}{interval}"


def _refusals(answered: AnsweredForecasts, named: bool, explain: bool) -> Iterator[str]:
    """Yield why systems forecast nothing, and what to measure.

    Where each scenario has a step of a device in detail, other systems are not missed.
    """
    answer, refused = answered.answer, answered.answer.refused
    detailed = [forecast for forecast in answer.forecasts if forecast.detail is not None]
    answered_scenarios = {forecast.scenario for forecast in detailed}
    left = [refusal for refusal in refused if refusal.scenario not in answered_scenarios]
    is_whole = bool(detailed) and len(detailed) == len(answer.forecasts)
    if is_whole and not (named or explain) and all(_is_single(each.scenario) for each in left):
        systems = {forecast.system.name for forecast in detailed}
        told = [refusal for refusal in left if refusal.system.name in systems]
        yield from _reasons(answer, told, named)
        if len(told) < len(refused):
            yield "Other systems have no forecast; --explain says why."
        return
    yield from _reasons(answer, refused, named)
    if not answer.forecasts and any(_is_single(refusal.scenario) for refusal in refused):
        yield _SINGLE
    if answered.own is not None:
        yield from profile_commands(answer, answered.own)
    else:
        yield from _study_file(answer, answered.templates)


def _is_single(scenario: Scenario) -> bool:
    return scenario.strategy.kind == "single"


def _reasons(
    answer: ForecastAnswer, refused: Sequence[ForecastRefusal], named: bool
) -> Iterator[str]:
    """Yield a line for each reason, and one for all systems about other training.

    Systems share a line where many have one reason, such as a precision that they do not know.
    """
    scenarios = {forecast.scenario for forecast in answer.forecasts}
    everything = len(scenarios | {refusal.scenario for refusal in answer.refused})
    by_reason: dict[tuple[str, str], list[ForecastRefusal]] = {}
    foreign: dict[str, None] = {}
    for refusal in refused:
        if refusal.foreign and not named:
            foreign[refusal.system.name] = None
        else:
            by_reason.setdefault((refusal.system.name, refusal.reason), []).append(refusal)
    lines: dict[tuple[str, bool], list[str]] = {}
    for (system, reason), refusals in by_reason.items():
        minutes = max((total_minutes(each.lacking) or 0.0 for each in refusals), default=0.0)
        about = f"; about {max(minutes, 1):.0f} min" if minutes else ""
        if minutes and any(missing.of_train for missing in refusals[0].lacking):
            about += " for each"
        is_clear = len(refusals) == everything or refusals[0].scenario.label in reason
        of = "" if is_clear else f" ({name_some([label(each.scenario) for each in refusals])})"
        lacks = any(each.lacking for each in refusals)
        lines.setdefault((f"{reason}{about}{of}", lacks), []).append(system)
    for (line, lacks), systems in lines.items():
        together = len(systems) >= _MANY and not lacks
        for some in [systems] if together else [[system] for system in systems]:
            yield f"{', '.join(some)}: {line}"
    if foreign:
        yield f"For other kinds of training: {', '.join(foreign)}."


def _study_file(answer: ForecastAnswer, templates: Sequence[Mapping[str, object]]) -> Iterator[str]:
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
        for template in templates:
            text = yaml.safe_dump(
                dict(template), default_flow_style=True, sort_keys=False, width=10**6
            )
            yield f"  - {text.strip()}"
    yield from advice(answer)
