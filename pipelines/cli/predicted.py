"""What `stepcast predict` prints: forecasts with their past errors, refusals, what to measure."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import yaml

from forecasting.asked.answer import Answer, Forecast, Refused
from forecasting.asked.lacking import minutes
from pipelines.cli import cautions, epochs, nearby
from pipelines.cli.nearby import label
from pipelines.cli.own import Own, advice, to_profile
from pipelines.cli.priced import priced
from pipelines.cli.tables import Column, print_rows, print_text
from studies.words import count, some

FILE = "asked.yaml"
Listed = Sequence[Mapping[str, object]]


def print_answer(
    answer: Answer,
    listed: Listed,
    *,
    named: bool,
    own: Own | None = None,
    dataset_samples: int | None = None,
) -> None:
    """Print an answer for people.

    Args:
        answer: of all systems.
        listed: the templates that were asked about, to be copied into a study file.
        named: whether the systems were named; else those about other training share a line.
        own: the user's model that was asked about, if it is one.
        dataset_samples: of an epoch, whose time is shown; None: of none.
    """
    if own is not None:
        print_text(own.in_words)
    for line in answer.place.in_words():
        print_text(line)
    if answer.forecasts:
        print_rows(*_table(answer.forecasts, dataset_samples))
    if prices := dict.fromkeys(
        price for one in answer.forecasts if one.cost for price in one.cost.prices
    ):
        print_text(f"Prices: {priced(prices)}.")
    for one in answer.forecasts:
        if one.value is None:
            print_text(f"{one.system.name} knows only an interval of {label(one)}: {one.unknown}")
    for line in (*cautions.travelled(answer), *cautions.fallbacks(answer.forecasts)):
        print_text(line)
    for told in (nearby.corrections, nearby.named, nearby.beyond, cautions.changes):
        for line in told(answer.forecasts):
            print_text(line)
    for line in _refusals(answer, named=named):
        print_text(line)
    for line in _to_measure(answer, listed) if own is None else to_profile(answer, own):
        print_text(line)
    if answer.written:
        new = "is" if answer.written == 1 else "are"
        forecasts = count(answer.written, "forecast")
        print_text(f"{forecasts} {new} new in the ledger, marked as merely asked for.")


def _table(
    forecasts: Sequence[Forecast], dataset_samples: int | None
) -> tuple[list[Column], list[list[str]]]:
    """Return the columns of forecasts, and their rows."""
    columns = [
        Column("scenario", is_key=True, is_heading=True),
        Column("system", is_key=True),
        Column("forecast", is_key=True, is_number=True),
        Column("interval", is_key=True, is_number=True),
        *([] if dataset_samples is None else [Column("epoch", is_number=True)]),
        Column("$/h", is_number=True),
        Column("$/10⁶ samples", is_number=True),
        Column("past error there", is_key=True),
        Column("noise floor"),
        Column("past error nearest"),
        Column("split"),
        Column("runs"),
    ]
    rows = [
        [
            label(one),
            one.system.name,
            "only an interval" if one.value is None else f"{one.value:.4g} {one.metric.unit}",
            "-" if one.low is None or one.high is None else f"{one.low:.3g} to {one.high:.3g}",
            *([] if dataset_samples is None else [epochs.in_words(one, dataset_samples)]),
            "-" if one.cost is None else f"{one.cost.usd_per_hour:.4g}",
            "-" if (usd := one.usd_per_million_samples) is None else f"{usd:.3g}",
            nearby.at_split(one),
            nearby.noise(one),
            nearby.of_nearest(one),
            one.split.replace("_", " "),
            f"{len(one.fit.runs)}, {_age(one.fit.runs[0].started_at)} old",
        ]
        for one in forecasts
    ]
    return columns, rows


def _age(then: datetime) -> str:
    age = datetime.now(UTC) - then
    if age < timedelta(hours=1):
        return f"{max(age, timedelta(0)).seconds // 60} min"
    return f"{age.days} d" if age >= timedelta(days=2) else f"{age / timedelta(hours=1):.0f} h"


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
        of = "" if told else f" ({some([label(one) for one in ours])})"
        yield f"{system}: {reason}{about}{of}"
    if foreign:
        yield f"For other kinds of training: {', '.join(foreign)}."


def _to_measure(answer: Answer, listed: Listed) -> Iterator[str]:
    """Yield a study file that measures what is lacking, as far as the scenarios themselves say."""
    systems = dict.fromkeys(
        one.system.name
        for one in answer.refused
        if one.lacking
        and not one.system.travels
        and not any(needed.of_train for needed in one.lacking)
    )
    if systems:
        yield f"To measure that, and then the forecasts, `stepcast run {FILE}`, a file with:"
        yield "  name: asked"
        yield f"  systems: [{', '.join(systems)}]"
        yield "  test:"
        for one in listed:
            yield f"  - {_on_one_line(one)}"
    yield from advice(answer)


def _on_one_line(template: Mapping[str, object]) -> str:
    text = yaml.safe_dump(dict(template), default_flow_style=True, sort_keys=False, width=10**6)
    return str(text).strip()
