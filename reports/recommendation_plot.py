"""What a recommendation chose from, as a picture: time against cost."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from forecasting.decisions.answer import DecisionAnswer
from models.choice.candidates import Candidate
from models.choice.limits import Limits
from models.choice.offers import Span
from reports.plots import LINEAR, MEASURED, PREDICTED, WARNING, styled

_INCHES, _INCHES_OF_CATALOGUE = (8.0, 5.0), (8.0, 6.5)


@dataclass(frozen=True)
class _Point:
    """Nodes in words, with hours and US dollars of the job."""

    label: str
    hours: Span
    usd: Span


def of_all_systems(answer: DecisionAnswer, name: str | None = None) -> Figure:
    """Plot one answer of all systems, with every way to run the job that one of them forecasts.

    Of a whole catalogue, times and costs differ by orders of magnitude: axes are logarithmic, and
    the choice alone has bars.

    Args:
        answer: of all systems.
        name: of the network; None: as the question calls it.
    """
    question, choice, at = answer.question, answer.decision.choice, answer.level
    return _time_against_cost(
        f"{question.samples:,} samples of {name or question.dnn}: least {question.minimize}",
        answer.objective.limits,
        others=[_of_candidate(candidate, at) for candidate in answer.candidates],
        front=[_of_candidate(candidate, at) for candidate in answer.front],
        choice=None if choice is None else _of_candidate(choice, at),
        is_of_catalogue=answer.is_of_catalogue,
    )


def _of_candidate(candidate: Candidate, at: float) -> _Point:
    time_s, cost_usd = candidate.spans(at)
    return _Point(candidate.label, time_s.times(1 / 3600), cost_usd)


@styled
def _time_against_cost(
    title: str,
    limits: Limits,
    *,
    others: Sequence[_Point],
    front: Sequence[_Point],
    choice: _Point | None,
    is_of_catalogue: bool = False,
) -> Figure:
    """Plot the Pareto front and the choice, all with intervals, and the limits."""
    inches = _INCHES_OF_CATALOGUE if is_of_catalogue else _INCHES
    figure = Figure(figsize=inches, layout="constrained")
    figure.suptitle(title, fontsize=12)
    axes = figure.subplots()
    if is_of_catalogue:
        axes.set(xscale="log", yscale="log")
        axes.margins(0.16, 0.12)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(StrMethodFormatter("{x:g}"))
            axis.set_minor_locator(NullLocator())
    bars = not is_of_catalogue
    if others := [point for point in others if point not in front]:
        _draw(axes, others, "o", 3, LINEAR, "other ways to run it", has_bars=bars)
    if front:
        places = _places(front)
        axes.plot(*places, "-", lw=1, color=PREDICTED)
        _draw(axes, front, "o", 4, PREDICTED, "Pareto front", has_bars=bars)
    if choice is not None:
        _draw(axes, [choice], "*", 13, MEASURED, f"choice: {choice.label}")
    if limits.deadline_s is not None:
        hours = limits.deadline_s / 3600
        axes.axvline(hours, color=WARNING, ls="--", lw=1, label=f"deadline: {hours:g} h")
    if limits.budget_usd is not None:
        usd = limits.budget_usd
        axes.axhline(usd, color=WARNING, ls=":", lw=1.5, label=f"budget: ${usd:g}")
    axes.set_xlabel("hours")
    axes.set_ylabel("cost, $")
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
    if not has_bars:
        axes.plot(*_places(points), mark, ms=size, mew=0, color=colour, label=label)
        return
    known = [[_ends(point.hours), _ends(point.usd)] for point in points]
    hours, usd = ([[ends[axis][side] for ends in known] for side in range(2)] for axis in range(2))
    axes.errorbar(
        *_places(points),
        xerr=hours,
        yerr=usd,
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


def _places(points: Sequence[_Point]) -> tuple[list[float], list[float]]:
    return [point.hours.value for point in points], [point.usd.value for point in points]
