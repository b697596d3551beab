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
from reports.study_plots import NamedCurves, worker_ticks
from reports.wording import link_speed, percent, signed


@dataclass(frozen=True)
class Paper:
    """A paper: its title, its sections of a round, and which of its own figures stand in them.

    `beside` has patterns of place and quantity by the title of a section.
    """

    title: str
    sections: Callable[[PaperEvaluation], Iterable[str]]
    beside: Mapping[str, str]


PAPERS: Mapping[str, Paper] = {
    "async_sgd": Paper(async_sgd.TITLE, async_sgd.sections, async_sgd.BESIDE),
    "srift": Paper(srift.TITLE, srift.sections, srift.BESIDE),
    "ceer": Paper(ceer.TITLE, ceer.sections, ceer.BESIDE),
    "predictddl": Paper(predictddl.TITLE, predictddl.sections, predictddl.BESIDE),
}
"""By the names that the history gives them."""
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
        for found in rounds:
            group = f"{paper.title}: study {found.about.study}, round {found.about.repeat}"
            groups[group], papers[group] = _sections(name, found), name
    shown = [
        replace(section, body=section.body + _beside(papers[section.group], section.title, printed))
        if section.group in papers
        else section
        for section in html.group_sections(groups)
    ]
    return html.fill_template(
        "papers.html",
        studies=", ".join(found.about.study for found in rounds),
        contents=html.contents_list(shown),
        sections=html.fold_sections(shown),
    )


def _sections(name: str, found: PaperEvaluation) -> Iterator[str]:
    """Yield what a paper shows of a round; errors and links, where the round follows the paper."""
    if name == _followed(found):
        yield errors_section(found.errors)
    yield from PAPERS[name].sections(found)
    if name == _followed(found):
        yield LINKS.html(found.links)


def _followed(found: PaperEvaluation) -> str:
    """Return the paper whose method a round is about."""
    if found.reuse is not None:
        return "predictddl"
    if found.by_operations is not None:
        return "ceer"
    return "async_sgd" if found.step_times is None and found.data_parallel is None else "srift"


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
