"""What a recommendation chose from, as a picture: time against cost."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecasting.decisions.answer import Answered
from forecasting.recommending import Recommended
from models.choosing.advice import Question
from models.choosing.candidates import Candidate
from models.choosing.limits import Limits
from models.choosing.options import Option, Span
from reports.plots import LINEAR, MEASURED, PREDICTED, SERIES, styled

_INCHES = (8.0, 4.5)


@dataclass(frozen=True)
class _Point:
    """Nodes in words, with hours and US dollars of the job."""

    label: str
    hours: Span
    usd: Span


def of_one_system(system: str, question: Question, found: Recommended) -> Figure:
    """Plot what a system's own search found."""
    advice, choice = found.advice, found.advice.choice
    return _time_against_cost(
        f"{question.iterations:,} iterations of {question.dnn}, global batch "
        f"{question.global_batch}: least {question.minimize}",
        Limits(deadline_s=question.job.deadline_s, budget_usd=question.budget_usd),
        others=(),
        front=[_of_option(one) for one in found.front],
        rules={name: _of_option(one) for name, one in advice.policies.items() if one is not None},
        choice=None if choice is None else _of_option(choice),
        chooser=system,
    )


def of_all_systems(found: Answered) -> Figure:
    """Plot one answer of all systems, with every way to run the job that one of them forecasts."""
    asked, choice, at = found.question, found.decision.choice, found.level
    return _time_against_cost(
        f"{asked.samples:,} samples of {asked.dnn}: least {asked.minimize}",
        found.aim.limits,
        others=[_of_candidate(one, at) for one in found.candidates],
        front=[_of_candidate(one, at) for one in found.front],
        rules={
            name: _of_candidate(one, at) for name, one in found.rules.items() if one is not None
        },
        choice=None if choice is None else _of_candidate(choice, at),
        chooser="choice",
    )


def _of_option(one: Option) -> _Point:
    return _Point(one.label, one.time_s.times(1 / 3600), one.cost_usd)


def _of_candidate(one: Candidate, at: float) -> _Point:
    return _Point(one.label, one.span("time_s", at).times(1 / 3600), one.span("cost_usd", at))


@styled
def _time_against_cost(
    title: str,
    limits: Limits,
    *,
    others: Sequence[_Point],
    front: Sequence[_Point],
    rules: Mapping[str, _Point],
    choice: _Point | None,
    chooser: str,
) -> Figure:
    """Plot the Pareto front, the choice with its intervals, rules of thumb, and the limits."""
    figure = Figure(figsize=_INCHES, layout="constrained")
    figure.suptitle(title, fontsize=12)
    axes = figure.subplots()
    if others:
        axes.plot(*_places(others), "o", ms=3, color=LINEAR, label="other ways to run it")
    if front:
        axes.plot(*_places(front), "-o", ms=4, color=PREDICTED, label="Pareto front")
    colours = iter(SERIES[2:])
    for name, one in rules.items():
        label = f"{name}: {one.label}"
        axes.plot(*_places([one]), "s", ms=6, color=next(colours), label=label)
    if choice is not None:
        _draw_choice(axes, choice, f"{chooser}: {choice.label}")
    if limits.deadline_s is not None:
        axes.axvline(limits.deadline_s / 3600, color=LINEAR, ls="--", lw=1)
    if limits.budget_usd is not None:
        axes.axhline(limits.budget_usd, color=LINEAR, ls="--", lw=1)
    axes.set_xlabel("hours")
    axes.set_ylabel("cost, $")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside lower left")
    return figure


def _draw_choice(axes: Axes, choice: _Point, label: str) -> None:
    ends = []
    for span in (choice.hours, choice.usd):
        low = span.value if span.low is None else span.low
        high = span.value if span.high is None else span.high
        ends.append([[span.value - low], [high - span.value]])
    (hours,), (usd,) = _places([choice])
    axes.errorbar(
        hours, usd, xerr=ends[0], yerr=ends[1], fmt="*", ms=13, color=MEASURED, label=label
    )


def _places(points: Sequence[_Point]) -> tuple[list[float], list[float]]:
    return [one.hours.value for one in points], [one.usd.value for one in points]
