"""The page of papers: their figures, of studies of a history, beside what they print."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from forecasting.findings.figure import Mark, PaperFigure
from forecasting.findings.papers import PAPERS, PaperEvaluation
from reports import html
from reports.html import Column, Section, caption_figure, grid, table, text_column
from reports.marks import draw
from reports.wording import DASH, percent

_BOUNDS = {None: "", "at_most": "≤ ", "at_least": "≥ ", "about": "about "}
_UNITS = {"percent": " %", "1": ""}
_MOST_OF_A_PANEL = 20_000
"""Points of a picture: more would be none that an eye tells apart."""


def render(rounds: Sequence[PaperEvaluation], printed: pl.DataFrame) -> str:
    """Return the page as HTML.

    Args:
        rounds: one of each study.
        printed: rows of query `paper_figures`: what papers report of themselves.
    """
    groups: dict[str, list[Section]] = {}
    for name, (title, _) in PAPERS.items():
        own = printed.filter(paper=name)
        groups[title] = [html.section("All that it prints", table(_PRINTED, own))]
        for evaluation in rounds:
            groups[f"{title}: {_named(evaluation)}"] = [
                section(figure, rows, own)
                for paper, figure, rows in evaluation.shown
                if paper == name
            ]
    for evaluation in rounds:
        groups[f"Errors: {_named(evaluation)}"] = [
            section(figure, rows, printed) for paper, figure, rows in evaluation.shown if not paper
        ]
    studies = ", ".join(evaluation.study for evaluation in rounds)
    header = (
        "<h1>What four papers show, here and in print</h1>\n"
        '<p class="soft">Figures and tables of the papers whose methods Stepcast forecasts with, '
        f"of what this\nhistory has, by study: {studies}. The papers' nodes were machines and "
        "GPUs, ours are mostly emulated,\nso pairs of numbers are no race. An error with a sign "
        "is above 0 where the forecast was too high.</p>"
    )
    return html.page("papers", header, groups)


def _named(evaluation: PaperEvaluation) -> str:
    return f"study {evaluation.study}, round {evaluation.repeat}"


def section(figure: PaperFigure, rows: pl.DataFrame, printed: pl.DataFrame) -> Section:
    """Return a figure's heading, what is said, its table, its pictures, and what was printed."""
    names = rows.columns if figure.columns is None else figure.columns
    parts = [f"<p>{figure.said}</p>"]
    if names:
        parts.append(table([_column(name, rows.schema[name]) for name in names], rows))
    if figure.mark is not None:
        parts.append(grid(list(_pictures(figure, figure.mark, rows))))
    where = pl.format("{}: {}", "place", "quantity").str.contains(figure.printed)
    if figure.printed and (beside := printed.filter(where)).height:
        parts.append(f"<h3>In the paper</h3>{table(_PRINTED, beside)}")
    return html.section(figure.title, *parts)


def _column(name: str, kind: pl.DataType) -> Column:
    """Return a column of a table, by its name and type: `_percent` is a percentage."""
    if name.endswith("_percent"):
        return Column(name.removesuffix("_percent").replace("_", " "), name, _percentage)
    title = name.replace("_", " ")
    if kind.is_numeric():
        return Column(title, name, _figure)
    if isinstance(kind, pl.List):
        return text_column(title, name, lambda values: ", ".join(map(str, values)) or DASH)
    return text_column(title, name)


def _percentage(value: float | None) -> str:
    return "infinite" if value == float("inf") else percent(value)


def _figure(value: float | None) -> str:
    if value is None:
        return DASH
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"


def _in_words(row: Mapping[str, Any]) -> str:
    """Return a figure of a paper with its bound and its unit."""
    return f"{_BOUNDS[row['bound']]}{row['value']:g}{_UNITS.get(row['unit'], ' ' + row['unit'])}"


_PRINTED = (
    text_column("place"),
    text_column("quantity"),
    text_column("of", "subject"),
    Column("in the paper", lambda row: row, _in_words),
)


def _pictures(figure: PaperFigure, mark: Mark, rows: pl.DataFrame) -> Iterator[tuple[str, str]]:
    panels = rows.group_by(mark.panel, maintain_order=True) if mark.panel else [((), rows)]
    for key, part in panels:
        title = str(key[0]) if key else figure.title
        picture = draw(mark, part.head(_MOST_OF_A_PANEL))
        yield title, caption_figure(picture, f"{figure.title}, {title}", _axes_in_words(mark))


def _axes_in_words(mark: Mark) -> str:
    dashed = f"; dashed: {', '.join(mark.y[1:])}" if len(mark.y) > 1 else ""
    return f"{mark.y[0]} by {mark.x}{dashed}.".replace("_", " ")
