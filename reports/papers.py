"""The page of papers: what they show, of studies of a history, beside what they print."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import polars as pl
from matplotlib.figure import Figure

from forecasting.evaluation import PaperEvaluation
from forecasting.findings.errors import RoundErrors
from reports import async_sgd, ceer, html, predictddl, srift
from reports.html import Column, TableSection, caption_figure, grid, table, text_column
from reports.plots import LINEAR, SIGNED, blank, coloured, legend_below, styled
from reports.study_sections import NamedCurves, worker_ticks
from reports.wording import link_speed, percent, signed


@dataclass(frozen=True)
class Paper:
    """A paper: its title, its sections of a round, and which of its own figures stand in them.

    `sections` take what `PaperEvaluation` has of the paper; `beside` has patterns of place and
    quantity by the title of a section.
    """

    title: str
    sections: Callable[[Any], Iterable[str]]
    beside: Mapping[str, str]


PAPERS: Mapping[str, Paper] = {
    "async_sgd": Paper(async_sgd.TITLE, async_sgd.sections, async_sgd.BESIDE),
    "srift": Paper(srift.TITLE, srift.sections, srift.BESIDE),
    "ceer": Paper(ceer.TITLE, ceer.sections, ceer.BESIDE),
    "predictddl": Paper(predictddl.TITLE, predictddl.sections, predictddl.BESIDE),
}
"""By the names that the history, and `PaperEvaluation`, give them."""
_BOUNDS = {None: "", "at_most": "≤ ", "at_least": "≥ ", "about": "about "}
_UNITS = {"percent": " %", "1": ""}
_PRINTED = (
    text_column("place"),
    text_column("quantity"),
    text_column("of", "subject"),
    Column("in the paper", lambda row: row, lambda row: _in_words(row), sorted_by="value"),
)


def render(rounds: Sequence[PaperEvaluation], printed: pl.DataFrame) -> str:
    """Return the page as HTML.

    Args:
        rounds: one of each study.
        printed: rows of query `paper_figures`: what papers report of themselves.
    """
    groups: dict[str, Iterable[str]] = {}
    papers: dict[str, str] = {}
    for name, paper in PAPERS.items():
        own = printed.filter(paper=name)
        groups[paper.title] = [f"<h2>All that it prints</h2>{table(_PRINTED, own)}"]
        for evaluation in rounds:
            group = (
                f"{paper.title}: study {evaluation.about.study}, round {evaluation.about.repeat}"
            )
            groups[group], papers[group] = _sections(name, evaluation), name
    shown = [
        replace(section, body=section.body + _beside(papers[section.group], section.title, printed))
        if section.group in papers
        else section
        for section in html.group_sections(groups)
    ]
    studies = ", ".join(evaluation.about.study for evaluation in rounds)
    header = (
        "<h1>What four papers show, here and in print</h1>\n"
        '<p class="soft">Figures and tables of the papers whose methods Stepcast forecasts with, '
        f"of what this\nhistory has, by study: {studies}. The papers' nodes were machines and "
        "GPUs, ours are mostly emulated,\nso pairs of numbers are no race. An error with a sign "
        "is above 0 where the forecast was too high.</p>"
    )
    return html.page("papers", header, folded=shown)


def _sections(name: str, evaluation: PaperEvaluation) -> Iterator[str]:
    """Yield what a paper shows of a round; errors and links, where the round follows the paper."""
    if name == _followed(evaluation):
        yield errors_section(evaluation.errors)
    if (findings := getattr(evaluation, name)) is not None:
        yield from PAPERS[name].sections(findings)
    if name == _followed(evaluation):
        yield LINKS.html(evaluation.links)


def _followed(evaluation: PaperEvaluation) -> str:
    """Return the paper whose method a round is about."""
    if evaluation.predictddl is not None:
        return "predictddl"
    if evaluation.ceer is not None:
        return "ceer"
    is_parallel = (
        evaluation.srift.step_times is not None or evaluation.srift.data_parallel is not None
    )
    return "srift" if is_parallel else "async_sgd"


def _beside(name: str, title: str, printed: pl.DataFrame) -> str:
    """Return a table of what a paper prints of what a section shows; nothing if nothing."""
    pattern = PAPERS[name].beside.get(title)
    if pattern is None:
        return ""
    rows = printed.filter(
        pl.col("paper") == name, pl.format("{}: {}", "place", "quantity").str.contains(pattern)
    )
    return f"<h3>In the paper</h3>{table(_PRINTED, rows)}" if rows.height else ""


def _in_words(row: Mapping[str, Any]) -> str:
    """Return a figure of a paper with its bound and its unit."""
    return f"{_BOUNDS[row['bound']]}{row['value']:g}{_UNITS.get(row['unit'], ' ' + row['unit'])}"


# Errors by network, batch size and workers (Figs. 13, 14 and 17 of ICPE'20, Table 5 of Srift).


_ERRORS = (
    text_column("network", "dnn"),
    Column("batch size", "batch_size"),
    Column("scenarios", "n"),
    Column("mean error", "mean", signed),
    Column("mean absolute error", "absolute", percent),
    Column("largest", format=percent),
)


def errors_section(errors: RoundErrors | None) -> str:
    """Return a table by network and batch size, and a figure of each network with a curve.

    Nothing if nothing was judged. Scenarios with one worker are in the figures alone.
    """
    if errors is None:
        return ""
    drawn = [
        (
            dnn,
            caption_figure(
                errors_plot(curves),
                f"Error of predicted throughput by number of workers, {dnn}",
                "Band: ±10 %.",
            ),
        )
        for dnn, curves in errors.by_network.items()
    ]
    return (
        "<h2>Errors by network and batch size</h2><p>The table is of two or more workers; what was "
        "measured while the host was busy is not in it.</p>"
        f"{table(_ERRORS, errors.by_batch)}<p></p>{grid(drawn)}"
    )


@styled
def errors_plot(curves: NamedCurves) -> Figure:
    """Plot the error of predictions by workers; frames by label have workers, error_percent."""
    figure, axes = blank()
    axes.axhspan(-10, 10, color=LINEAR, alpha=0.15, lw=0)
    axes.axhline(0, color=LINEAR, lw=1)
    for color, (label, rows) in coloured(curves):
        axes.plot(rows["workers"], rows["error_percent"], "-o", ms=5, color=color, label=label)
    axes.set(xlabel="workers", ylabel=SIGNED, xticks=worker_ticks(rows for _, rows in curves))
    legend_below(figure, axes)
    return figure


# How much links carry.


LINKS = TableSection(
    "Speed of the links",
    "Goodput of simultaneous flows between the server and as many workers, as iperf3's receivers "
    "counted it; all flows together, mean over trials.",
    (
        text_column("shaped to", "link_mbps", link_speed),
        text_column("direction"),
        Column("flows"),
        Column("goodput", "mbps", "{:.1f} Mb/s".format),
        Column("trials"),
    ),
)
"""Of rows of `forecasting.findings.srift.goodput`."""
