"""The first screen of a report: one sentence, one picture of errors, three numbers."""

from collections.abc import Iterable, Iterator
from html import escape

import polars as pl
from matplotlib.figure import Figure

from forecasting.evaluation import Evaluation
from forecasting.findings.study import OpeningFigures
from forecasting.results import Summary
from reports import plots
from reports.html import caption_figure
from reports.plots import LINEAR, PREDICTED, SIGNED, blank, styled
from reports.svg import INK
from reports.wording import baseline_clause, floor, held_intervals, percent
from studies.messages import count


def sentence(found: Evaluation) -> str:
    """Return what the report answers, in numbers."""
    result, baseline = found.summary, found.about.baseline
    scenarios = count(found.rows.height, "scenario")
    if result.error is None:
        known = int(found.rows["predicted"].is_not_null().sum())
        some = "none with several workers" if result.several else "none"
        return f"{known} of {scenarios} are forecast; {some} has been judged."
    by = f" by {' and '.join(found.opening.systems)}" if found.opening.systems else ""
    whose = "With several workers, forecasts" if result.several else "Forecasts"
    beside = baseline_clause(result, f"; {baseline} is off by")
    return f"{whose}{by} are off by {percent(result.error)} in the mean{beside}."


def figures(found: Evaluation) -> str:
    """Return three numbers, each with how many it is of, the noise floor, and when it was made."""
    result, opening = found.summary, found.opening
    noise, when = f"noise floor {floor(result)}", sealed_sentence(opening)
    of = f"n = {result.n}; {noise}"
    mean = f"Mean absolute error{', W ≥ 2' if result.several else ''}"
    cards = (
        (mean, percent(result.error), (of, *left_out_lines(found.rows, result), when)),
        ("Nine of ten are off by at most", percent(opening.nine_of_ten), (of, when)),
        ("Measured inside the 90 % interval", *_inside(opening, when)),
    )
    return "\n".join(_card(*card) for card in cards)


def _inside(opening: OpeningFigures, when: str) -> tuple[str, tuple[str, ...]]:
    """Return how many measurements were inside, and whether so many can judge intervals."""
    if not opening.inside_n:
        return percent(None), ("n = 0", when)
    value, said = held_intervals(opening.inside_count, opening.inside_n)
    return value, (said, when)


def left_out_lines(rows: pl.DataFrame, result: Summary) -> Iterator[str]:
    """Yield which judged scenarios the mean leaves out and why, and what it would be with them."""
    known = rows.filter(pl.col("error_percent").is_not_null())
    alone = known.height - result.n - result.busy_n
    reasons = (
        (alone, f"{alone} of one worker"),
        (result.busy_n, f"{result.busy_n} measured while the host was busy"),
    )
    if told := [said for n, said in reasons if n]:
        mean = percent(_number(known["error_percent"].abs().mean()))
        yield f"left out: {' and '.join(told)}; with these {mean}, n = {known.height}"


def sealed_sentence(opening: OpeningFigures) -> str:
    """Return how many of the judged forecasts were sealed, and when the others were made."""
    known = [
        (n, words)
        for n, words in (
            (opening.sealed, "published before measuring"),
            (opening.before, "made before the run, not published"),
            (opening.after, "made after the fact, from profiles"),
        )
        if n
    ]
    if not known:
        return "nothing judged"
    if len(known) == 1:
        return f"forecasts {known[0][1]}"
    return "forecasts: " + "; ".join(f"{n} {words}" for n, words in known)


def uncounted_sentence(result: Summary) -> str:
    """Return how many scenarios do not count because the host was busy."""
    return f", and {result.busy_n} not counted, the host being busy" if result.busy_n else ""


def picture(found: Evaluation) -> str:
    """Return errors by number of workers; where nothing was judged, the first curve."""
    points, about = found.opening.points, found.about
    if points.is_empty():
        curve = found.rows.filter(curve=found.rows["curve"].min())
        if curve["predicted"].is_null().all():
            return ""
        drawn = plots.scaling(curve, about.metric, baseline=about.baseline)
        title = str(curve["title"][0])
        return caption_figure(drawn, f"{about.metric} by number of workers, {title}", title)
    has_baseline = points["linear_error_percent"].is_not_null().any()
    beside, grey = (
        (f", beside {about.baseline}", f" Grey: {about.baseline}.") if has_baseline else ("", "")
    )
    described = [f"Error of each scenario by number of workers{beside}"]
    for (workers,), rows in points.sort("workers").group_by("workers", maintain_order=True):
        ours, theirs = (rows[name].abs().mean() for name in points.columns[1:])
        said = percent(_number(ours))
        if has_baseline:
            said += f", {about.baseline} {percent(_number(theirs))}"
        described.append(f"{count(int(str(workers)), 'worker')}: {said}")
    caption = (
        f"How far {about.metric} are from what was measured, scenario by scenario. "
        f"Blue: forecast.{grey} Band: ±10 %."
    )
    return caption_figure(errors(points, about.baseline), ". ".join(described), caption)


def _card(title: str, value: str, notes: Iterable[str]) -> str:
    said = "".join(f"<small>{escape(note)}</small>" for note in notes)
    return f"<div><dt>{escape(title)}</dt><dd>{value}{said}</dd></div>"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


# The picture of the first screen: how wrong forecasts were, beside a rule of thumb.


_ASIDE = 0.16
"""Of a worker, to the left and to the right, so that both can be seen."""
_NEAR_PERCENT = 10
_MOST_PERCENT = 150
"""A rule of thumb errs by so much that forecasts could not be told apart; it is cut off here."""


@styled
def errors(points: pl.DataFrame, baseline: str) -> Figure:
    """Plot the error of each judged scenario by workers, forecast and baseline side by side.

    `points` has workers, error_percent and linear_error_percent, NULL where there is no baseline;
    one outside of ±150 % is drawn as a triangle at the edge.
    """
    figure, axes = blank("")
    axes.axhspan(-_NEAR_PERCENT, _NEAR_PERCENT, color=PREDICTED, alpha=0.12, lw=0)
    axes.axhline(0, color=INK, alpha=0.5, lw=0.8)
    kinds = (
        ("linear_error_percent", _ASIDE, LINEAR, baseline),
        ("error_percent", -_ASIDE, PREDICTED, "forecast"),
    )
    places = {workers: place for place, workers in enumerate(sorted(set(points["workers"])))}
    for column, aside, colour, label in kinds:
        known = points.filter(pl.col(column).is_not_null()).select("workers", error=pl.col(column))
        if known.is_empty():
            continue
        x = [places[workers] + aside for workers in known["workers"]]
        inside = known["error"].clip(-_MOST_PERCENT, _MOST_PERCENT)
        is_out = (known["error"].abs() > _MOST_PERCENT).to_list()
        for out, sign in ((False, "o"), (True, "^")):
            chosen = [place for place, one in enumerate(is_out) if one == out]
            axes.plot(
                [x[place] for place in chosen],
                [inside[place] for place in chosen],
                sign,
                ms=5,
                alpha=0.65,
                mew=0,
                color=colour,
                label=label if not out else None,
            )
    axes.set_xticks(range(len(places)), labels=[str(place) for place in places])
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set(xlabel="workers", ylabel=SIGNED)
    axes.margins(y=0.12)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="best")
    return figure
