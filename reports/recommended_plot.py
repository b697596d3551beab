"""What a recommendation chose from, as a picture: time against cost."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from forecasting.recommending import Recommended
from models.choosing.advice import Question
from models.choosing.options import Option
from reports.plots import LINEAR, MEASURED, PREDICTED, SERIES, styled

_INCHES = (8.0, 4.5)


@styled
def time_against_cost(system: str, question: Question, found: Recommended) -> Figure:
    """Plot the Pareto front, the choice with its intervals, rules of thumb, and the limits."""
    figure = Figure(figsize=_INCHES, layout="constrained")
    figure.suptitle(
        f"{question.iterations:,} iterations of {question.dnn}, global batch "
        f"{question.global_batch}: least {question.minimize}",
        fontsize=12,
    )
    axes = figure.subplots()
    if found.front:
        axes.plot(*_places(found.front), "-o", ms=4, color=PREDICTED, label="Pareto front")
    colours = iter(SERIES[2:])
    for name, option in found.advice.policies.items():
        if option is not None:
            label = f"{name}: {option.label}"
            axes.plot(*_places([option]), "s", ms=6, color=next(colours), label=label)
    if (choice := found.advice.choice) is not None:
        _draw_choice(axes, choice, f"{system}: {choice.label}")
    for limit, draw in (
        (question.max_hours, axes.axvline),
        (question.budget_usd, axes.axhline),
    ):
        if limit is not None:
            draw(limit, color=LINEAR, ls="--", lw=1)
    axes.set_xlabel("hours")
    axes.set_ylabel("cost, $")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    figure.legend(loc="outside lower left")
    return figure


def _draw_choice(axes: Axes, choice: Option, label: str) -> None:
    ends = []
    for span in (choice.time_s.times(1 / 3600), choice.cost_usd):
        low = span.value if span.low is None else span.low
        high = span.value if span.high is None else span.high
        ends.append([[span.value - low], [high - span.value]])
    (hours,), (usd,) = _places([choice])
    axes.errorbar(
        hours, usd, xerr=ends[0], yerr=ends[1], fmt="*", ms=13, color=MEASURED, label=label
    )


def _places(options: Sequence[Option]) -> tuple[list[float], list[float]]:
    return [one.time_s.value / 3600 for one in options], [one.cost_usd.value for one in options]
