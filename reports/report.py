"""The report: one HTML file with everything in it, to be read without a network."""

from html import escape
from pathlib import Path
from string import Template

import polars as pl

from forecasting.evaluation import Captures, Evaluation
from forecasting.findings.about import About
from forecasting.results import Summary
from reports import plots
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.sections import (
    choices,
    comparisons,
    components,
    convergence,
    data_parallel,
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
    servers,
    step_times,
    traced_steps,
    unseen,
    windows,
)
from reports.wording import DASH, floor, interval, number, percent
from studies.words import count
from warehouse.durable import write_text

FILE = "report.html"
"""Name of the report in a home."""
_BOUND = " The line rate is a bound: it says nothing about few workers."
STYLE = Path(__file__).with_name("style.css")
"""How pages look, on paper, on a phone, and in the dark too."""
_TEMPLATE = Path(__file__).with_name("report.html")


def write(evaluation: Evaluation, path: Path) -> Path:
    """Write the report of an evaluated round, whole or not at all, and return its path."""
    write_text(path, render(evaluation))
    return path


def render(evaluation: Evaluation) -> str:
    """Return the report of an evaluated round as HTML."""
    about, rows, systems = evaluation.about, evaluation.rows, evaluation.systems
    curves = rows.partition_by("curve", maintain_order=True)
    return Template(_TEMPLATE.read_text()).substitute(
        style=STYLE.read_text(),
        name=escape(about.study),
        repeat=about.repeat,
        description=escape(about.description),
        warning=_warning(about, rows),
        figures=_figures(evaluation.summary, about.baseline),
        scenarios=_scenarios(rows, about.baseline),
        systems=_systems(systems),
        metric=about.metric,
        bound=_BOUND if "line_rate" in systems["system"] else "",
        causes=largest_errors.section(evaluation.largest_errors),
        curves=grid([_curve(curve, about) for curve in curves]),
        sections="\n".join(filter(None, _sections(evaluation))),
        links=goodput.section(evaluation.links),
        judged=_judged(evaluation.summary),
        provenance=provenance.section(about),
    )


def _warning(about: About, rows: pl.DataFrame) -> str:
    notes = []
    if about.backend == "loopback":
        notes.append(
            "Measured on plain processes of one machine (loopback): links are not shaped and "
            "workers share its cores, so no accuracy is claimed here."
        )
    busy = rows.filter(pl.col("host_busy"))["label"].to_list()
    if busy:
        notes.append(f"The host itself was busy while this was measured: {'; '.join(busy)}.")
    return "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)


def _figures(result: Summary, baseline: str) -> str:
    cards = (
        (
            "Mean absolute error, W ≥ 2",
            percent(result.error),
            f"over {count(result.n, 'scenario')}{_uncounted(result)}",
        ),
        (f"Error of {baseline}", percent(result.linear_error), "the same scenarios"),
        ("Noise floor", percent(result.noise_floor), _floor_note(result)),
    )
    return "\n".join(
        f"<div><dt>{escape(title)}</dt><dd>{value}<small>{escape(note)}</small></dd></div>"
        for title, value, note in cards
    )


def _uncounted(result: Summary) -> str:
    return f", and {result.busy_n} not counted, the host being busy" if result.busy_n else ""


def _floor_note(result: Summary) -> str:
    if result.noise_floor is None:
        return "known from the second round on"
    return f"over {count(result.noise_n, 'scenario')} measured in several rounds"


def _scenarios(rows: pl.DataFrame, baseline: str) -> str:
    body = [
        [
            Cell(row["label"], is_number=False),
            Cell(number(row["predicted"])),
            Cell(interval(row["low"], row["high"]) or DASH),
            Cell(number(row["measured"])),
            Cell(percent(row["error_percent"], signed=True)),
            Cell(percent(row["spread_percent"])),
            Cell(number(row["linear"])),
            Cell(percent(row["linear_error_percent"], signed=True)),
            Cell((row["split"] or DASH).replace("_", " "), is_number=False),
        ]
        for row in rows.to_dicts()
    ]
    ours = ("scenario", "predicted", "interval", "measured", "error", "within-run spread")
    return table((*ours, baseline, f"error of {baseline}", "split"), body)


def _systems(systems: pl.DataFrame) -> str:
    """Return a row per system, a column per network; `systems` lists all networks before each."""
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
    return table(["system", *dnns, "all", "scenarios", "one worker"], body)


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
        comparisons.section(found.comparisons),
        errors.section(found.errors),
        step_times.section(found.step_times),
        data_parallel.section(found.data_parallel),
        components.section(found.components),
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
        "<p>Every prediction was written to a ledger before the run that judges it started, from "
        "what was profiled and probed before, alone; rows of measurements are hidden "
        "from predictors. Error is (predicted − measured) / measured. <em>Split</em> says how far "
        "a scenario is from what the predictor was fitted to. The <em>within-run spread</em> is "
        "(largest − smallest window) / mean of one run, not a repetition. The <em>noise floor</em> "
        "is the mean absolute error of forecasting each run by the mean of its runs in other "
        f"rounds, on re-created clusters: {floor(result)}. Judged with two or more workers: "
        f"{count(result.n, 'scenario')}{_uncounted(result)}.</p>"
    )
