"""The report: one HTML file with everything in it, to be read without a network."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape
from pathlib import Path

import polars as pl

from forecasting.evaluation import Evaluation
from forecasting.findings.study import RoundDescription
from forecasting.results import Summary, has_several, scaling
from reports import first_screen, html, plots, study_sections
from reports.html import MOST_FIGURES, MOST_ROWS, Cell, caption_figure, grid, table
from reports.svg import MOST_POINTS
from reports.wording import floor, number, percent
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
_BOUND = " The line rate is a bound: it says nothing about few workers."


def write(evaluation: Evaluation, path: Path) -> Path:
    """Write the report of an evaluated round, whole or not at all, and return its path."""
    write_text(path, render(evaluation))
    return path


def render(evaluation: Evaluation) -> str:
    """Return the report of an evaluated round as HTML."""
    about, rows = evaluation.about, evaluation.rows
    found = html.group_sections(_groups(evaluation))
    return html.fill_template(
        "report.html",
        name=escape(about.study),
        repeat=str(about.repeat),
        description=escape(about.description),
        sentence=escape(first_screen.sentence(evaluation)),
        warning=_warning(about, rows),
        picture=first_screen.picture(evaluation),
        figures=first_screen.figures(evaluation),
        contents=html.contents_list(found),
        sections=html.fold_sections(found),
    )


def _groups(found: Evaluation) -> Mapping[str, Iterable[str]]:
    """Return all sections by the question they answer; each has its heading, or is empty."""
    return {
        "How far off are the forecasts?": _accuracy(found),
        "Which part of a forecast is wrong?": [
            study_sections.largest_errors_section(found.largest_errors)
        ],
        "What should be rented?": [study_sections.decisions_section(found.decisions)],
        "Where do the figures come from?": [
            f"<h2>How the figures were judged</h2>{_judged(found.summary)}",
            f"<h2>Hosts, nodes and runs</h2>{study_sections.provenance_section(found.about)}",
        ],
    }


def _accuracy(found: Evaluation) -> Iterator[str]:
    """Yield how wrong forecasts were, of scenarios, systems, networks and curves."""
    about = found.about
    curves = scaling(found.rows)
    drawn = [_curve(curve, about) for curve in curves[:MOST_FIGURES]]
    yield study_sections.scenarios_section(found.rows, about, found.per_dollar)
    if curves:
        yield f"<h2>Forecast and measured, by number of workers</h2>{grid(drawn, len(curves))}"
    yield study_sections.published_section(found.published)
    yield _systems(found.systems)
    yield study_sections.board_section(found.board)


def _warning(about: RoundDescription, rows: pl.DataFrame) -> str:
    notes = []
    if about.backend == "loopback" and has_several(rows):
        notes.append(
            "Measured on plain processes of one machine (loopback): links are not shaped and "
            "workers share its cores, so no accuracy is claimed here."
        )
    busy = rows.filter(pl.col("host_busy"))["label"].to_list()
    if busy:
        notes.append(f"The host itself was busy while this was measured: {'; '.join(busy)}.")
    return "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)


def _systems(systems: pl.DataFrame) -> str:
    """Return a row per network, a column per system; `systems` lists all networks before each."""
    bound = _BOUND if "line_rate" in systems["system"] else ""
    names = systems["system"].unique(maintain_order=True).to_list()
    whole = [systems.row(by_predicate=_whole(name), named=True) for name in names]
    errors = {(row["dnn"], row["system"]): row["mean_ape_percent"] for row in systems.to_dicts()}
    dnns = [*systems["dnn"].drop_nulls().unique().sort(), None]
    body = [
        [
            Cell(dnn or "all", is_number=False),
            *(Cell(percent(errors.get((dnn, name)))) for name in names),
        ]
        for dnn in dnns
    ]
    apart = {
        "scenarios": [str(one["n"]) for one in whole],
        "one worker": [percent(one["w1_error_percent"], signed=True) for one in whole],
    }
    body += [[Cell(what, is_number=False), *map(Cell, of)] for what, of in apart.items()]
    shown = table(["network", *names], body)
    return f"<h2>All systems, by network</h2><p>{_SYSTEMS}{bound}</p>{shown}"


def _whole(system: str) -> pl.Expr:
    """Select the row of a system on all networks."""
    return (pl.col("system") == system) & pl.col("dnn").is_null()


def _curve(rows: pl.DataFrame, about: RoundDescription) -> tuple[str, str]:
    title = rows["title"][0]
    known = rows.filter(pl.col("measured").is_not_null()).to_dicts()
    said = "; ".join(
        f"{count(row['workers'], 'worker')}: {number(row['predicted'])} predicted, "
        f"{number(row['measured'])} measured"
        for row in known
    )
    described = f"{about.metric} by number of workers, {title}. {said}"
    caption = "Band: prediction interval. Bars: spread between the windows of the run."
    drawn = plots.scaling(rows, about.metric, baseline=about.baseline)
    return title, caption_figure(drawn, described, caption)


def _judged(result: Summary) -> str:
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
        f"{count(result.n, 'scenario')}{first_screen.uncounted_sentence(result)}.</p>"
        f"<p>{_BOUNDED}</p>"
    )
