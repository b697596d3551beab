"""The report: one HTML file with everything in it, to be read without a network."""

import os
from collections.abc import Iterator
from html import escape
from pathlib import Path
from string import Template

import polars as pl

from forecasting import ceer_study
from forecasting.chosen import baseline_in_words
from forecasting.captured import captured_profiles
from forecasting.simulations import FittedModels
from reports import plots, provenance
from reports.figure_html import captioned, grid
from reports.html_table import Cell, table
from reports.results import Summary, summary
from reports.sections import (
    choices,
    comparisons,
    components,
    convergence,
    data_parallel,
    devices,
    end_times,
    errors,
    http2,
    operations,
    order,
    overhead,
    residuals,
    servers,
    step_times,
    steps,
    unseen,
    windows,
)
from reports.wording import DASH, floor, interval, link_speed, number, percent
from studies import landed
from studies.curve import BY_OPERATIONS
from studies.rounds import Round
from studies.study import Study
from studies.words import count
from warehouse.durable import remove, temporary

FILE = "report.html"
"""Name of the report in a home."""
_BOUND = " The line rate is a bound: it says nothing about few workers."
_TEMPLATE = Path(__file__).with_name("report.html")


def write(
    round_: Round, rows: pl.DataFrame, systems: pl.DataFrame, landing: Path, path: Path
) -> Path:
    """Write the report of a round, whole or not at all, and return its path.

    `rows` is what `reports.results.outcome` returns, `systems` what `by_system` does.
    """
    fresh = temporary(path.parent)
    try:
        fresh.write_text(render(round_, rows, systems, landing))
        os.replace(fresh, path)
    finally:
        remove(fresh)
    return path


def render(round_: Round, rows: pl.DataFrame, systems: pl.DataFrame, landing: Path) -> str:
    """Return the report of a round as HTML."""
    curves = rows.partition_by("curve", maintain_order=True)
    asynchronous = round_.study.kind == "asynchronous"
    models = FittedModels(round_, landing)
    return Template(_TEMPLATE.read_text()).substitute(
        name=escape(round_.study.name),
        repeat=round_.repeat,
        description=escape(round_.study.description),
        warning=_warning(round_, rows),
        figures=_figures(summary(rows), baseline_in_words(round_.study)),
        scenarios=_scenarios(rows, baseline_in_words(round_.study)),
        systems=_systems(systems),
        metric=round_.study.metric.in_words,
        bound=_BOUND if asynchronous else "",
        causes=residuals.section(round_, rows, landing, models) if asynchronous else "",
        curves=grid([_job(curve, round_.study) for curve in curves]),
        sections=_sections(round_, rows, landing, models),
        links=_links(landed.rows(round_, landing, "links", "link")),
        judged=_judged(summary(rows)),
        provenance=provenance.section(round_),
    )


def _warning(round_: Round, rows: pl.DataFrame) -> str:
    notes = []
    if round_.backend == "loopback":
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


def _job(rows: pl.DataFrame, study: Study) -> tuple[str, str]:
    title = rows["title"][0]
    known = rows.filter(pl.col("measured").is_not_null()).to_dicts()
    said = "; ".join(
        f"{count(row['workers'], 'worker')}: {number(row['predicted'])} predicted, "
        f"{number(row['measured'])} measured"
        for row in known
    )
    described = f"{study.metric.in_words} by number of workers, {title}. {said}"
    caption = "Band: prediction interval. Bars: spread between the windows of the run."
    return title, captioned(
        plots.scaling(rows, study.metric.in_words, baseline=baseline_in_words(study)),
        described,
        caption,
    )


def _sections(round_: Round, rows: pl.DataFrame, landing: Path, models: FittedModels) -> str:
    """Return what only some rounds can show; each section is empty where it has nothing to show."""
    if round_.study.kind == "ddp":
        return "\n".join(
            [
                errors.section(round_.study, rows),
                step_times.section(round_.study, rows),
                data_parallel.section(round_, landing),
                components.section(round_, landing),
            ]
        )
    if round_.study.kind in BY_OPERATIONS:
        return "\n".join([errors.section(round_.study, rows), *_of_ceer(round_, rows, landing)])
    captured = captured_profiles(round_, landing)
    seen = {one.run.run_id for one in captured}
    by_run = {
        run.run_id: models[part]
        for part, run in round_.runs_of("tf_trace").items()
        if run.run_id in seen
    }
    return "\n".join(
        [
            comparisons.section(round_.study, rows),
            errors.section(round_.study, rows),
            steps.section(round_, landing),
            convergence.section(round_, landing, models),
            servers.section(round_, landing, models),
            overhead.section(captured),
            http2.section(captured),
            end_times.section(captured),
            order.section(captured),
            windows.section(captured, by_run),
        ]
    )


def _of_ceer(round_: Round, rows: pl.DataFrame, landing: Path) -> Iterator[str]:
    """Yield what operations and steps of a round show."""
    found = ceer_study.measured(round_, landing)
    if found is None:
        return
    yield operations.section(found)
    yield devices.section(found)
    noise = summary(rows).noise_floor
    yield unseen.section(found, None if noise is None else noise / 100)
    yield choices.section(found)


def _links(rows: pl.DataFrame) -> str:
    if not rows.width:
        return "<p>No links were probed.</p>"
    totals = rows.group_by("link_mbps", "direction", "flows", "trial").agg(
        mbps=pl.col("bandwidth_Bps").sum() * 8e-6
    )
    means = (
        totals.group_by("link_mbps", "direction", "flows")
        .agg(pl.col("mbps").mean(), trials=pl.len())
        .sort("link_mbps", "direction", "flows")
    )
    body = [
        [
            Cell(link_speed(row["link_mbps"]), is_number=False),
            Cell(row["direction"], is_number=False),
            Cell(str(row["flows"])),
            Cell(f"{row['mbps']:.1f} Mb/s"),
            Cell(str(row["trials"])),
        ]
        for row in means.to_dicts()
    ]
    return table(["shaped to", "direction", "flows", "goodput", "trials"], body)


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
