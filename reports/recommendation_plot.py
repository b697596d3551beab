"""What a recommendation chose from, as a picture: time against cost."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.path import Path
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
from matplotlib.transforms import Bbox

from forecasting.decisions.answer import DecisionAnswer
from models.choice.candidates import Candidate
from models.choice.limits import Limits
from models.choice.offers import Span
from reports.plots import LINEAR, MEASURED, PREDICTED, SERIES, WARNING, styled

_INCHES, _INCHES_OF_CATALOGUE = (8.0, 5.0), (8.0, 6.5)
_RING, _WIDER = 10.0, 4.0
"""Points across: of the mark of the first rule of thumb, and how much wider the next ones are."""
_MARK = 8.0
"""Pixels across: what a name may not cover of a mark."""
_BATCH = re.compile(r"@\d+")
_PLACES: Sequence[tuple[float, float, str, str]] = (
    (-8, -6, "right", "top"),
    (-10, 0, "right", "center"),
    (0, -12, "center", "top"),
)
"""Where a name may stand beside its mark: points to the right and up, and how it is aligned.

Below the front there is nothing: nothing is both faster and cheaper.
"""


@dataclass(frozen=True)
class _Point:
    """Nodes in words, with hours and US dollars of the job."""

    label: str
    hours: Span
    usd: Span


def of_all_systems(answer: DecisionAnswer, name: str | None = None) -> Figure:
    """Plot one answer of all systems, with every way to run the job that one of them forecasts.

    Of a whole catalogue, times and costs differ by orders of magnitude: axes are logarithmic, the
    front is named, and only the choice and what rules of thumb take have bars.

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
        rules={
            "cheapest an hour" if name == "cheapest" else name: _of_candidate(candidate, at)
            for name, candidate in answer.rules.items()
            if candidate is not None
        },
        choice=None if choice is None else _of_candidate(choice, at),
        chooser="choice",
        is_of_catalogue=answer.is_of_catalogue,
    )


def _of_candidate(candidate: Candidate, at: float) -> _Point:
    return _Point(
        candidate.label,
        candidate.span("time_s", at).times(1 / 3600),
        candidate.span("cost_usd", at),
    )


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
    is_of_catalogue: bool = False,
) -> Figure:
    """Plot the Pareto front, the choice, rules of thumb, all with intervals, and the limits.

    Rules that take the same are one mark, a ring around what lies below it.
    """
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
        _draw(axes, [choice], "*", 13, MEASURED, f"{chooser}: {choice.label}")
    colours = iter(SERIES[2:])
    size = _RING
    for point, names in _alike(rules):
        label = f"{', '.join(names)}: {point.label}"
        _draw(axes, [point], "o", size, next(colours), label, is_ring=True)
        size += _WIDER
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
    if is_of_catalogue and front:
        _name_points(figure, axes, front)
    return figure


def _name_points(figure: Figure, axes: Axes, points: Sequence[_Point]) -> None:
    """Write names beside marks, where none covers another, a mark, their line or the frame.

    Those without such a place stay without a name: the table of what more money buys lists all.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    figure.draw_without_rendering()
    frame = axes.get_window_extent(renderer)
    places = axes.transData.transform(list(zip(*_places(points), strict=True)))
    line = Path(places)
    marks = [Bbox.from_bounds(x - _MARK / 2, y - _MARK / 2, _MARK, _MARK) for x, y in places]
    taken = list(marks)
    for point, mark in zip(points, marks, strict=True):
        for right, up, across, along in _PLACES:
            name = axes.annotate(
                _BATCH.sub("", point.label),
                (point.hours.value, point.usd.value),
                xytext=(right, up),
                textcoords="offset points",
                ha=across,
                va=along,
                fontsize=8,
                in_layout=False,
                zorder=5,
            )
            box = name.get_window_extent(renderer)
            others = (other for other in taken if other is not mark)
            inside = frame.x0 <= box.x0 and box.x1 <= frame.x1
            inside = inside and frame.y0 <= box.y0 and box.y1 <= frame.y1
            crosses = line.intersects_bbox(box, filled=False)
            if inside and not crosses and not any(box.overlaps(other) for other in others):
                taken.append(box)
                break
            name.remove()


def _alike(rules: Mapping[str, _Point]) -> Iterator[tuple[_Point, list[str]]]:
    """Yield what rules of thumb take, each with the names of all rules that take it."""
    names: dict[_Point, list[str]] = {}
    for name, point in rules.items():
        names.setdefault(point, []).append(name)
    yield from names.items()


def _draw(
    axes: Axes,
    points: Sequence[_Point],
    mark: str,
    size: float,
    colour: str,
    label: str,
    *,
    is_ring: bool = False,
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
        mfc="none" if is_ring else colour,
        mew=1.5 if is_ring else 0,
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
