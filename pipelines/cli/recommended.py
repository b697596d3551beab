"""A recommendation as `stepcast recommend` prints it, the same for every system."""

import json
from collections.abc import Iterator, Mapping, Sequence

import polars as pl
import typer

from forecasting.recommendation import Market, SearchRecommendation
from models.choice.advice import AdviceRequest
from models.choice.limits import LIMITS, Limit, exceeded_limits
from models.choice.offers import Option
from pipelines.cli.prices import prices_in_words
from pipelines.cli.tables import TableColumn, print_rows, print_text
from reports.wording import are_few, held_intervals
from studies.messages import count

_SAID: Mapping[Limit, str] = {
    "deadline_s": "time",
    "budget_usd": "budget",
    "usd_per_hour": "price an hour",
}
_COLUMNS = (
    TableColumn("by"),
    TableColumn("nodes", is_key=True),
    TableColumn("step", is_number=True),
    TableColumn("hours", is_key=True, is_number=True),
    TableColumn("cost", is_key=True, is_number=True),
    TableColumn("limits"),
)


def print_recommendation(
    system: str, question: AdviceRequest, market: Market, found: SearchRecommendation
) -> None:
    """Print choice, alternatives and rules of thumb, then what they rest on and how surely."""
    advice = found.advice
    print_text(
        f"{question.iterations:,} iterations of {question.dnn} with a global batch of "
        f"{question.global_batch}{''.join(_limits(question))}: least {question.minimize}"
    )
    if advice.choice is None:
        print_text(
            f"{system}: no feasible choice; {' or '.join(advice.relaxations) or 'none exists'}"
        )
    else:
        print_text(f"{system} recommends {advice.choice.label}")
    print_text(_judged(system, found))
    rows = list(_rows(system, found))
    if rows:
        print_rows(_COLUMNS, _cells(question, rows))
    if found.front:
        print_text("What more money buys: nothing else within the limits is faster and cheaper")
        print_rows(_COLUMNS, _cells(question, [("", one) for one in found.front]))
    for line in found.place.in_words():
        print_text(line)
    print_text(f"Prices as of {market.as_of:%Y-%m-%d}: {prices_in_words(found.prices)}.")
    print_text(f"Searched {advice.searched}.")
    for line in _accuracy(system, found):
        print_text(line)
    print_text(f"Recommendation {found.recommendation_id}, by fit {found.fit_id}.")


def print_json(
    system: str, question: AdviceRequest, market: Market, found: SearchRecommendation
) -> None:
    """Print the same as one JSON object, with the Pareto front."""
    asked = {"capacity": dict(market.capacity), "market": market.market}
    told = {
        "system": system,
        "question": question.model_dump(mode="json") | {**asked, "as_of": market.as_of.isoformat()},
        **found.advice.model_dump(mode="json"),
        "front": [one.model_dump(mode="json") for one in found.front],
        "prices": [price.model_dump(mode="json") for price in found.prices],
        "backend": found.place.backend,
        "host_id": found.place.host_id,
        "this_host": found.place.is_here,
        "judged": found.judged,
        "accuracy": found.accuracy.to_dicts(),
        "fit_id": found.fit_id,
        "recommendation_id": found.recommendation_id,
    }
    typer.echo(json.dumps(told, ensure_ascii=False, default=str))


def _limits(question: AdviceRequest) -> Iterator[str]:
    if question.max_hours is not None:
        yield f", within {question.max_hours:g} hours"
    if question.budget_usd is not None:
        yield f", for ${question.budget_usd:g} at most"
    if question.max_usd_per_hour is not None:
        yield f", at ${question.max_usd_per_hour:g} an hour at most"


def _rows(system: str, found: SearchRecommendation) -> Iterator[tuple[str, Option | None]]:
    if found.advice.choice is not None:
        yield f"{system}", found.advice.choice
    for option in found.advice.alternatives:
        yield "next best", option
    yield from found.advice.policies.items()


def _cells(question: AdviceRequest, rows: Sequence[tuple[str, Option | None]]) -> list[list[str]]:
    return [
        [name, "nothing that holds the batch", "", "", "", ""]
        if option is None
        else [
            name,
            option.label,
            option.step_time_s.in_words("{:.4g} s"),
            option.time_s.times(1 / 3600).in_words("{:.3g}"),
            option.cost_usd.in_words("${:.4g}"),
            ", ".join(_exceeded(question, option)) or "kept",
        ]
        for name, option in rows
    ]


def _exceeded(question: AdviceRequest, option: Option) -> Iterator[str]:
    """Yield each limit that is exceeded, and those that may be."""
    surely = exceeded_limits(question.job, option.outcome)
    for limit in LIMITS:
        if limit in surely:
            yield f"{_SAID[limit]} exceeded"
        elif limit in exceeded_limits(question.job, option.worst):
            yield f"{_SAID[limit]} may be exceeded"


def _judged(system: str, found: SearchRecommendation) -> str:
    """Return how many forecasts of the system were judged where it answers."""
    on = f"on backend {found.place.backend}"
    if found.judged:
        return f"{count(found.judged, 'forecast')} of {system} have been judged {on}."
    return f"No forecast of {system} has been judged {on}: nothing says how far off this is."


def _accuracy(system: str, found: SearchRecommendation) -> Iterator[str]:
    """Yield a line for each split: how wrong the system has been there."""
    judged = found.accuracy.filter(pl.col("n") > 0).sort("split")
    if judged.is_empty():
        return
    yield f"How wrong {system} has been on backend {found.place.backend}:"
    for row in judged.to_dicts():
        noise = row["noise_floor"]
        floor = "not measured" if noise is None else f"{noise:.1f} % (n = {row['noise_n']})"
        covered = _covered(row["coverage_percent"], row["coverage_n"])
        yield (
            f"  {row['split'].replace('_', ' ')}: mean error {row['mape']:.1f} %, in 90 % of cases "
            f"underestimated by at most {row['p90_underestimate'] or 0.0:.1f} %{covered}, n = "
            f"{row['n']}; noise floor {floor}"
        )


def _covered(percent: float | None, n: int) -> str:
    """Return how many were inside of their intervals; nothing where there are none."""
    if percent is None:
        return ""
    value, _ = held_intervals(round(n * percent / 100), n)
    return f", {value} inside their interval{', too few to judge' if are_few(n) else ''}"
