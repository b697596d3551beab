"""What a recommendation chose from, as a picture: time against cost."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from forecasting.decisions.answer import DecisionAnswer
from models.choice.candidates import Candidate
from models.choice.offers import Span
from reports.plots import LINEAR, MEASURED, PREDICTED, WARNING, styled

_INCHES, _INCHES_OF_CATALOGUE = (8.0, 5.0), (8.0, 6.5)
_Point = tuple[Span, Span]
"""Hours and US dollars of the job."""


@styled
def of_all_systems(answer: DecisionAnswer, name: str | None = None) -> Figure:
    """Plot one answer of all systems: every way to run the job, Pareto front, choice and limits.

    Of a whole catalogue, times and costs differ by orders of magnitude: axes are logarithmic, and
    the choice alone has bars.

    Args:
        answer: of all systems.
        name: of the network; None: as the question calls it.
    """

    def place(candidate: Candidate) -> _Point:
        time_s, cost_usd = candidate.spans(answer.level)
        return time_s.times(1 / 3600), cost_usd

    question, choice = answer.question, answer.decision.choice
    limits = question.objective.limits
    is_of_catalogue = answer.is_of_catalogue
    inches = _INCHES_OF_CATALOGUE if is_of_catalogue else _INCHES
    figure = Figure(figsize=inches, layout="constrained")
    title = f"{question.samples:,} samples of {name or question.dnn}: least {question.minimize}"
    figure.suptitle(title, fontsize=12)
    axes = figure.subplots()
    if is_of_catalogue:
        axes.set(xscale="log", yscale="log")
        axes.margins(0.16, 0.12)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_locator(NullLocator())
    bars, front = not is_of_catalogue, [*map(place, answer.front)]
    if others := [point for each in answer.candidates if (point := place(each)) not in front]:
        _draw(axes, others, "o", 3, LINEAR, "other ways to run it", has_bars=bars)
    if front:
        axes.plot(*_places(front), "-", lw=1, color=PREDICTED)
        _draw(axes, front, "o", 4, PREDICTED, "Pareto front", has_bars=bars)
    if choice is not None:
        _draw(axes, [place(choice)], "*", 13, MEASURED, f"choice: {choice.label}")
    if limits.deadline_s is not None:
        hours = limits.deadline_s / 3600
        axes.axvline(hours, color=WARNING, ls="--", lw=1, label=f"deadline: {hours:g} h")
    if (usd := limits.budget_usd) is not None:
        axes.axhline(usd, color=WARNING, ls=":", lw=1.5, label=f"budget: ${usd:g}")
    axes.set(xlabel="hours", ylabel="cost, $")
    if not is_of_catalogue:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    figure.legend(
        loc="outside lower left",
        ncols=2,
        title="Bars: intervals of time and cost",
        labelspacing=1.0 if is_of_catalogue else None,
    )
    return figure


def _draw(
    axes: Axes,
    points: Sequence[_Point],
    mark: str,
    size: float,
    colour: str,
    label: str,
    *,
    has_bars: bool = True,
) -> None:
    """Draw points with the intervals that are known."""
    hours, usd = ([_ends(span) for span in spans] for spans in zip(*points, strict=True))
    x, y = _places(points)
    axes.errorbar(
        x,
        y,
        xerr=[*zip(*hours, strict=True)] if has_bars else None,
        yerr=[*zip(*usd, strict=True)] if has_bars else None,
        fmt=mark,
        ms=size,
        mfc=colour,
        mew=0,
        elinewidth=0.7,
        color=colour,
        label=label,
    )


def _ends(span: Span) -> tuple[float, float]:
    """Return how far the ends of an interval are below and above its value; 0: not known."""
    low = span.value if span.low is None else span.low
    high = span.value if span.high is None else span.high
    return max(span.value - low, 0.0), max(high - span.value, 0.0)


def _places(points: Sequence[_Point]) -> list[list[float]]:
    return [[span.value for span in spans] for spans in zip(*points, strict=True)]
