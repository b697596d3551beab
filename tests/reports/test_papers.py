"""The page of papers: what each shows of a round, and what it prints of that beside it."""

import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from forecasting.findings.figure import Mark, PaperFigure
from forecasting.findings.papers import PAPERS, PaperEvaluation, evaluate_papers
from reports import papers
from reports.marks import draw
from studies.rounds import Round
from tests.reports.pages import Page, cells, headings
from tests.synthetic import STUDY
from warehouse.warehouse import Warehouse

LARGEST = ("section 4.2, Fig. 14", "largest error", "other DNNs", "at_most", 10, "percent")
PRINTED = pl.DataFrame(
    [
        ("async_sgd", *LARGEST),
        ("async_sgd", "section 4.5", "time to measure", None, None, 581, "s"),
        ("srift", "section 5.3, Fig. 7", "90th percentile", None, None, 13.5, "percent"),
    ],
    ["paper", "place", "quantity", "subject", "bound", "value", "unit"],
    orient="row",
)
"""Rows as query `paper_figures` returns them."""


ROWS = pl.DataFrame(
    {
        "dnn": ["alexnet", "alexnet", "vgg11"],
        "workers": [2, 3, 2],
        "error_percent": [-5.0, 7.5, None],
        "seconds": [0.0125, 1234.4, 2.0],
        "unseen": [["Einsum", "Conv"], [], []],
    }
)
FIGURE = PaperFigure(
    "Errors",
    "Of <em>all</em>.",
    lambda _: ROWS,
    Mark("line", "workers", ("error_percent", "seconds"), of="dnn"),
    printed=r"Fig\. 14\b",
)


def test_a_figure_has_a_table_a_picture_and_what_was_printed() -> None:
    html = papers.section(FIGURE, ROWS, PRINTED).body
    measured, printed = html.split("<h3>In the paper</h3>")
    assert cells(measured) == [
        ["dnn", "workers", "error", "seconds", "unseen"],
        ["alexnet", "2", "−5.0 %", "0.0125", "Einsum, Conv"],
        ["alexnet", "3", "7.5 %", "1,234", "—"],
        ["vgg11", "2", "—", "2", "—"],
    ]
    assert cells(printed)[1:] == [["section 4.2, Fig. 14", "largest error", "other DNNs", "≤ 10 %"]]
    assert html.count('<svg role="img"') == 1
    assert Page(html).open == []
    bare = PaperFigure("Errors", "", lambda _: ROWS, Mark("step", "workers", ("seconds",)), ())
    assert cells(papers.section(bare, ROWS, PRINTED).body) == []


def test_marks_draw_what_the_rows_say() -> None:
    (axes,) = draw(FIGURE.mark, ROWS).axes  # type: ignore[arg-type]
    assert [list(line.get_xdata()) for line in axes.lines] == [[2, 3], [2, 3], [], [2]]  # type: ignore[arg-type]
    assert axes.lines[0].get_color() == axes.lines[1].get_color() != axes.lines[2].get_color()
    spans = pl.DataFrame({"link": ["up", "down"], "start_s": [0.0, 0.5], "end_s": [1.0, 2.0]})
    (axes,) = draw(Mark("spans", "start_s", ("link",), to="end_s"), spans).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["up", "down"]
    (bars,) = axes.collections
    ends = [(path.get_extents().x0, path.get_extents().x1) for path in bars.get_paths()]
    assert ends == [(0.0, 1.0), (0.5, 2.0)]
    points = Mark("points", "seconds", ("dnn",), of="dnn", log="x")
    (axes,) = draw(points, ROWS).axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_yticklabels()] == ["alexnet", "vgg11"]


def test_each_paper_shows_what_a_round_has_beside_what_it_prints(
    landed_round: Callable[[str], Round], home: Path
) -> None:
    round_, warehouse = landed_round(STUDY), Warehouse(home)
    warehouse.load()
    found = evaluate_papers(round_, warehouse)
    own = ("async_sgd", FIGURE, ROWS)
    page = papers.render([PaperEvaluation(found.study, 1, (own, *found.shown))], PRINTED)
    group = "Li et al., asynchronous SGD in TensorFlow (ICPE 2020): study paper, round 1"
    _, _, shown = page.partition("<main>")
    _, named, shown = shown.partition(f'<p class="group">{group}</p>')
    assert named
    shown, *_ = shown.split('<p class="group">')
    assert headings(shown)[0] == "Errors"
    assert "What a profiled step consists of" in headings(shown)
    assert "Ceer: study" not in page and "PredictDDL (2023): study" not in page
    assert page.count("All that it prints</h2>") == len(PAPERS)
    assert "581 s" in page and "13.5 %" in page
    assert "default-src 'none';" in page
    assert not re.findall(r"(src|srcset|action)=", page)


@pytest.mark.parametrize("name", PAPERS)
def test_what_stands_beside_figures_is_in_the_history(name: str, home: Path) -> None:
    """A pattern that no printed figure has shows nothing."""
    printed = Warehouse(home).query("paper_figures", paper=name)
    places = printed.select(pl.format("{}: {}", "place", "quantity")).to_series()
    for figure in PAPERS[name][1]:
        if figure.printed:
            assert places.str.contains(figure.printed).any(), figure.title
