"""The report: one HTML file with everything in it, to be read without a network."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

import polars as pl
from matplotlib.figure import Figure

from forecasting.evaluation import Evaluation, OpeningFigures
from forecasting.results import Summary, has_several, scaling
from reports import html, study_sections
from reports.html import (
    MOST_FIGURES,
    MOST_ROWS,
    Column,
    Section,
    caption_figure,
    grid,
    table_section,
    text_column,
)
from reports.plots import INK, LINEAR, MOST_POINTS, PREDICTED, SIGNED, blank, styled
from reports.wording import baseline_clause, floor, number, percent, signed
from studies.messages import count
from warehouse.durable_files import write_text

_BOUNDED = (
    f"This page does not grow with its study: a table has {MOST_ROWS:,} rows at most, a section "
    f"{MOST_FIGURES} figures side by side, and a line of more than {MOST_POINTS:,} points is drawn "
    "as pixels."
)
_SYSTEMS = (
    "Mean absolute error over scenarios with two or more workers, by network, of each system, the "
    "smallest first; for one worker the mean error with its sign."
)
_FEW = 20
"""So many intervals can hold or not by chance: a share of them is no headline."""
_BOUND = " The line rate is a bound: it says nothing about few workers."


def write(evaluation: Evaluation, path: Path) -> Path:
    """Write the report of an evaluated round, whole or not at all, and return its path."""
    write_text(path, render(evaluation))
    return path


def render(evaluation: Evaluation) -> str:
    """Return the report of an evaluated round as HTML."""
    round_, rows = evaluation.round, evaluation.rows
    header = (
        f"<h1>{escape(sentence(evaluation))}</h1>\n"
        f'<p class="soft">{escape(round_.study.description)}</p>\n'
        f"{_warning(round_.backend, rows)}\n"
        f'<div class="first">\n{picture(evaluation)}\n'
        f'<dl class="figures">\n{figures(evaluation)}\n</dl>\n</div>'
    )
    groups: Mapping[str, Iterable[Section | None]] = {
        "How far off are the forecasts?": _accuracy(evaluation),
        "Where do the figures come from?": [
            html.section("How the figures were judged", _judged(evaluation.summary)),
            html.section("Hosts, nodes and runs", study_sections.provenance(evaluation)),
        ],
    }
    return html.page(f"{round_.study.name}, round {round_.repeat}", header, groups)


def _accuracy(evaluation: Evaluation) -> Iterator[Section | None]:
    """Yield how wrong forecasts were, of scenarios, systems, networks and curves."""
    curves = scaling(evaluation.rows)
    drawn = [_curve(curve, evaluation) for curve in curves[:MOST_FIGURES]]
    yield study_sections.scenarios_section(evaluation)
    if curves:
        title = "Forecast and measured, by number of workers"
        yield html.section(title, grid(drawn, len(curves)))
    yield study_sections.published_section(evaluation.published)
    yield _systems(evaluation.systems)


def _warning(backend: str, rows: pl.DataFrame) -> str:
    notes = []
    if backend == "loopback" and has_several(rows):
        notes.append(
            "Measured on plain processes of one machine (loopback): links are not shaped and "
            "workers share its cores, so no accuracy is claimed here."
        )
    busy = rows.filter(pl.col("host_busy"))["label"].to_list()
    if busy:
        notes.append(f"The host itself was busy while this was measured: {'; '.join(busy)}.")
    return "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)


def _systems(systems: pl.DataFrame) -> Section | None:
    """Return a row per network, a column per system; `systems` lists all networks before each."""
    bound = _BOUND if "line_rate" in systems["system"] else ""
    names = systems["system"].unique(maintain_order=True).to_list()
    whole = [row for row in systems.to_dicts() if row["dnn"] is None]
    errors = {(row["dnn"], row["system"]): row["mean_ape_percent"] for row in systems.to_dicts()}
    dnns = [*systems["dnn"].drop_nulls().unique().sort(), None]
    rows: list[dict[str, object]] = [
        {"network": dnn or "all"} | {name: percent(errors.get((dnn, name))) for name in names}
        for dnn in dnns
    ]
    rows += [
        {"network": "scenarios"} | {row["system"]: row["n"] for row in whole},
        {"network": "one worker"}
        | {row["system"]: signed(row["w1_error_percent"]) for row in whole},
    ]
    columns = (text_column("network"), *map(Column, names))
    return table_section("All systems, by network", f"{_SYSTEMS}{bound}", columns, rows)


def _curve(rows: pl.DataFrame, about: Evaluation) -> tuple[str, str]:
    title = rows["title"][0]
    known = rows.filter(pl.col("measured").is_not_null()).to_dicts()
    figures = "; ".join(
        f"{count(row['workers'], 'worker')}: {number(row['predicted'])} predicted, "
        f"{number(row['measured'])} measured"
        for row in known
    )
    described = f"{about.metric} by number of workers, {title}. {figures}"
    caption = "Band: prediction interval. Bars: spread between the windows of the run."
    drawn = study_sections.scaling(rows, about.metric, baseline=about.baseline)
    return title, caption_figure(drawn, described, caption)


def _judged(result: Summary) -> str:
    uncounted = f", and {result.busy_n} not counted, the host being busy" if result.busy_n else ""
    return (
        "<p>A forecast rests on what was profiled and probed, alone; rows of measurements are "
        "hidden from predictors. A run judges the forecasts that were in the ledger before it was "
        "loaded. <em>Published</em>: a file of forecasts was written before the measurement began "
        "(<code>stepcast seal</code>). <em>Before its run</em>: the forecast was made before the "
        "run began, and nobody else can check that. <em>After the fact</em>: it was made later, "
        "from profiles. Error is (predicted − measured) / measured: above 0, the forecast was too "
        "high. <em>Split</em> says how far a scenario is from what the predictor was fitted to. "
        "The <em>within-run spread</em> is (largest − smallest window) / mean of one run, not a "
        "repetition. The <em>noise floor</em> is the mean absolute error of forecasting each run "
        "by the mean of its runs in other "
        f"rounds, on re-created clusters: {floor(result)}. Judged with two or more workers: "
        f"{count(result.n, 'scenario')}{uncounted}.</p>"
        f"<p>{_BOUNDED}</p>"
    )


def sentence(evaluation: Evaluation) -> str:
    """Return what the report answers, in numbers."""
    result, baseline = evaluation.summary, evaluation.baseline
    scenarios = count(evaluation.rows.height, "scenario")
    if result.error is None:
        known = int(evaluation.rows["predicted"].is_not_null().sum())
        some = "none with several workers" if result.several else "none"
        return f"{known} of {scenarios} are forecast; {some} has been judged."
    by = f" by {' and '.join(evaluation.opening.systems)}" if evaluation.opening.systems else ""
    whose = "With several workers, forecasts" if result.several else "Forecasts"
    beside = baseline_clause(result, f"; {baseline} is off by")
    return f"{whose}{by} are off by {percent(result.error)} in the mean{beside}."


def figures(evaluation: Evaluation) -> str:
    """Return three numbers, each with how many it is of, the noise floor, and when it was made."""
    result, opening = evaluation.summary, evaluation.opening
    noise, when = f"noise floor {floor(result)}", sealed_sentence(opening)
    of = f"n = {result.n}; {noise}"
    mean = f"Mean absolute error{', W ≥ 2' if result.several else ''}"
    cards = (
        (mean, percent(result.error), (of, *left_out_lines(evaluation.rows, result), when)),
        ("Nine of ten are off by at most", percent(opening.nine_of_ten), (of, when)),
        ("Measured inside the 90 % interval", *_inside(opening, when)),
    )
    return "\n".join(_card(*card) for card in cards)


def _inside(opening: OpeningFigures, when: str) -> tuple[str, tuple[str, ...]]:
    """Return which share of measurements was inside; of few, how many."""
    counts, n = f"{opening.inside} of {opening.inside_n}", opening.inside_n
    share = percent(100 * opening.inside / n if n else None)
    shown = counts if 0 < n < _FEW else share
    return shown, (f"nine of ten are expected; {counts}", when)


def left_out_lines(rows: pl.DataFrame, result: Summary) -> Iterator[str]:
    """Yield which judged scenarios the mean leaves out and why, and what it would be with them."""
    known = rows.filter(pl.col("error_percent").is_not_null())
    alone = known.height - result.n - result.busy_n
    reasons = (
        (alone, f"{alone} of one worker"),
        (result.busy_n, f"{result.busy_n} measured while the host was busy"),
    )
    if left_out := [reason for n, reason in reasons if n]:
        mean = percent(_number(known["error_percent"].abs().mean()))
        yield f"left out: {' and '.join(left_out)}; with these {mean}, n = {known.height}"


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


_AXES = {"workers": "number of workers", "dnn": "network"}


def _axis(points: pl.DataFrame) -> str:
    """Return what tells scenarios apart: of a study with one number of workers, their networks."""
    return "workers" if points["workers"].n_unique() > 1 else "dnn"


def picture(evaluation: Evaluation) -> str:
    """Return errors by number of workers, or network; where nothing was judged, the first curve."""
    points, metric, baseline = evaluation.opening.points, evaluation.metric, evaluation.baseline
    if points.is_empty():
        curve = evaluation.rows.filter(curve=evaluation.rows["curve"].min())
        if curve["predicted"].is_null().all():
            return ""
        title = str(curve["title"][0])
        drawn = study_sections.scaling(curve, metric, baseline=baseline)
        return caption_figure(drawn, f"{metric} by number of workers, {title}", title)
    has_baseline = points["linear_error_percent"].is_not_null().any()
    beside, grey = (f", beside {baseline}", f" Grey: {baseline}.") if has_baseline else ("", "")
    by = _axis(points)
    described = [f"Error of each scenario by {_AXES[by]}{beside}"]
    for (place,), rows in points.sort(by).group_by(by, maintain_order=True):
        error, baseline_error = (
            rows[name].abs().mean() for name in ("error_percent", "linear_error_percent")
        )
        errors = percent(_number(error))
        if has_baseline:
            errors += f", {baseline} {percent(_number(baseline_error))}"
        named = count(int(str(place)), "worker") if by == "workers" else str(place)
        described.append(f"{named}: {errors}")
    caption = (
        f"How far {metric} are from what was measured, scenario by scenario. "
        f"Blue: forecast.{grey} Band: ±10 %."
    )
    return caption_figure(errors_plot(points, baseline), ". ".join(described), caption)


def _card(title: str, value: str, notes: Iterable[str]) -> str:
    lines = "".join(f"<small>{escape(note)}</small>" for note in notes)
    return f"<div><dt>{escape(title)}</dt><dd>{value}{lines}</dd></div>"


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


_ASIDE = 0.16
"""Of a worker, to the left and to the right, so that both can be seen."""
_NEAR_PERCENT = 10
_MOST_PERCENT = 150
"""A rule of thumb errs by so much that forecasts could not be told apart; it is cut off here."""


@styled
def errors_plot(points: pl.DataFrame, baseline: str) -> Figure:
    """Plot the error of each judged scenario by workers, forecast and baseline side by side.

    Where all have as many workers, by network. `points` has workers, dnn, error_percent and
    linear_error_percent, NULL where there is no baseline; one outside of ±150 % is at the edge.
    """
    figure, axes = blank()
    axes.axhspan(-_NEAR_PERCENT, _NEAR_PERCENT, color=PREDICTED, alpha=0.12, lw=0)
    axes.axhline(0, color=INK, alpha=0.5, lw=0.8)
    kinds = (
        ("linear_error_percent", _ASIDE, LINEAR, baseline),
        ("error_percent", -_ASIDE, PREDICTED, "forecast"),
    )
    by = _axis(points)
    places = {name: place for place, name in enumerate(sorted(set(points[by])))}
    for column, aside, colour, label in kinds:
        known = points.drop_nulls(column)
        if known.height:
            x = [places[name] + aside for name in known[by]]
            y = known[column].clip(-_MOST_PERCENT, _MOST_PERCENT)
            axes.plot(x, y, "o", ms=5, alpha=0.65, mew=0, color=colour, label=label)
    axes.set_xticks(range(len(places)), labels=[str(place) for place in places])
    axes.set_xlim(-0.6, len(places) - 0.4)
    axes.set(xlabel="workers" if by == "workers" else "", ylabel=SIGNED)
    if by == "dnn":
        axes.tick_params("x", rotation=90, labelsize="small")
    axes.margins(y=0.12)
    handles, names = axes.get_legend_handles_labels()
    axes.legend(handles[::-1], names[::-1], loc="best")
    return figure
