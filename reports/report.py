"""The report: one HTML file with everything in it, to be read without a network."""

from collections.abc import Iterator
from html import escape
from pathlib import Path

import polars as pl

from forecasting.evaluation import Captures, Evaluation
from forecasting.findings.about import About
from forecasting.results import Summary, has_several, scaling
from reports import first_screen, folding, page, plots
from reports.figure_html import MOST_FIGURES, captioned, grid
from reports.html_table import MOST_ROWS, Cell, table
from reports.sections import (
    board,
    choices,
    comparisons,
    components,
    convergence,
    data_parallel,
    decisions,
    devices,
    end_times,
    errors,
    goodput,
    http2,
    largest_errors,
    operations,
    order,
    overhead,
    provenance,
    published,
    regressions,
    reuse,
    scenarios,
    servers,
    step_times,
    traced_steps,
    unseen,
    windows,
)
from reports.svg import MOST_POINTS
from reports.wording import floor, number, percent
from studies.words import count
from warehouse.durable import write_text

_BOUNDED = (
    f"This page does not grow with its study: a table has {MOST_ROWS:,} rows at most, a section "
    f"{MOST_FIGURES} figures side by side, and a line of more than {MOST_POINTS:,} points is drawn "
    "as pixels."
)
FILE = "report.html"
"""Name of the report in a home."""
_SYSTEMS = (
    "Mean absolute error over scenarios with two or more workers, by network, smallest first; for "
    "one worker the mean error with its sign."
)
_LINKS = (
    "<p>Goodput of simultaneous flows between the server and as many workers, as iperf3's "
    "receivers counted it; all flows together, mean over trials.</p>"
)
_BOUND = " The line rate is a bound: it says nothing about few workers."


def write(evaluation: Evaluation, path: Path) -> Path:
    """Write the report of an evaluated round, whole or not at all, and return its path."""
    write_text(path, render(evaluation))
    return path


def render(evaluation: Evaluation) -> str:
    """Return the report of an evaluated round as HTML."""
    about, rows = evaluation.about, evaluation.rows
    found = folding.sections(_all(evaluation))
    return page.filled(
        "report.html",
        name=escape(about.study),
        repeat=str(about.repeat),
        description=escape(about.description),
        sentence=escape(first_screen.sentence(evaluation)),
        warning=_warning(about, rows),
        picture=first_screen.picture(evaluation),
        figures=first_screen.figures(evaluation),
        contents=folding.contents(found),
        sections=folding.folded(found),
    )


def _all(evaluation: Evaluation) -> Iterator[str]:
    """Yield all sections; each begins with its heading, or is empty."""
    about = evaluation.about
    curves = scaling(evaluation.rows)
    drawn = [_curve(curve, about) for curve in curves[:MOST_FIGURES]]
    yield scenarios.section(evaluation.rows, about, evaluation.per_dollar)
    yield published.section(evaluation.published)
    yield decisions.section(evaluation.decisions)
    yield _systems(evaluation.systems)
    yield f"<h2>Scaling</h2>{grid(drawn, len(curves))}" if curves else ""
    yield largest_errors.section(evaluation.largest_errors)
    yield from _sections(evaluation)
    yield f"<h2>Links</h2>{_LINKS}{goodput.section(evaluation.links)}"
    yield f"<h2>How the figures were judged</h2>{_judged(evaluation.summary)}"
    yield f"<h2>Where they come from</h2>{provenance.section(about)}"


def _warning(about: About, rows: pl.DataFrame) -> str:
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
    """Return a row per system, a column per network; `systems` lists all networks before each."""
    bound = _BOUND if "line_rate" in systems["system"] else ""
    dnns = systems["dnn"].drop_nulls().unique().sort().to_list()
    body = []
    for one in systems.partition_by("system", maintain_order=True):
        errors = dict(one.select("dnn", "mean_ape_percent").rows())
        (whole,) = one.filter(pl.col("dnn").is_null()).to_dicts()
        body.append(
            [
                Cell(whole["system"], is_number=False),
                *(Cell(percent(errors.get(dnn))) for dnn in dnns),
                Cell(percent(errors[None])),
                Cell(str(whole["n"])),
                Cell(percent(whole["w1_error_percent"], signed=True)),
            ]
        )
    shown = table(["system", *dnns, "all", "scenarios", "one worker"], body)
    return f"<h2>Beside the baselines</h2><p>{_SYSTEMS}{bound}</p>{shown}"


def _curve(rows: pl.DataFrame, about: About) -> tuple[str, str]:
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
    return title, captioned(drawn, described, caption)


def _sections(found: Evaluation) -> list[str]:
    """Return what only some rounds can show; each section is empty where it has nothing to show."""
    return [
        board.section(found.board),
        comparisons.section(found.comparisons),
        errors.section(found.errors),
        step_times.section(found.step_times),
        data_parallel.section(found.data_parallel),
        components.section(found.components),
        reuse.section(found.reuse),
        regressions.section(found.reuse),
        *_of_operations(found),
        traced_steps.section(found.traced_steps),
        convergence.section(found.convergence),
        servers.section(found.servers),
        *_of_captures(found.captures),
    ]


def _of_operations(evaluation: Evaluation) -> list[str]:
    """Return what operations and steps of a round show."""
    if (found := evaluation.by_operations) is None:
        return []
    return [
        operations.section(found.operations),
        devices.section(found.devices),
        unseen.section(found.unseen),
        choices.section(found.choices),
    ]


def _of_captures(captures: Captures) -> list[str]:
    """Return what captured packets show."""
    return [
        overhead.section(captures.overheads),
        http2.section(captures.http2),
        end_times.section(captures.end_times),
        order.section(captures.orders),
        windows.section(captures.windows),
    ]


def _judged(result: Summary) -> str:
    return (
        "<p>A forecast rests on what was profiled and probed, alone; rows of measurements are "
        "hidden from predictors. A run judges the forecasts that were in the ledger before it was "
        "loaded. <em>Published</em>: a file of forecasts was written before the measurement began "
        "(<code>stepcast seal</code>). <em>Before its run</em>: the forecast was made before the "
        "run began, and nobody else can check that. <em>After the fact</em>: it was made later, "
        "from profiles. Error is (predicted − measured) / measured. <em>Split</em> says how far a "
        "scenario is from what the predictor was fitted to. The <em>within-run spread</em> is "
        "(largest − smallest window) / mean of one run, not a repetition. The <em>noise floor</em> "
        "is the mean absolute error of forecasting each run by the mean of its runs in other "
        f"rounds, on re-created clusters: {floor(result)}. Judged with two or more workers: "
        f"{count(result.n, 'scenario')}{first_screen.uncounted(result)}.</p>"
        f"<p>{_BOUNDED}</p>"
    )
