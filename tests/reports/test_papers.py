"""The page of papers: what each shows of a round, and what it prints of that beside it."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from forecasting.evaluation import PaperEvaluation, evaluate_papers
from forecasting.findings.errors import RoundErrors
from reports import papers
from studies.rounds import Round
from tests.reports.pages import cells
from tests.synthetic import STUDY
from warehouse.home import CHECKOUT
from warehouse.warehouse import Warehouse

PRINTED = pl.DataFrame(
    [
        (
            "async_sgd",
            "section 4.2, Fig. 14",
            "largest error",
            "other DNNs",
            "at_most",
            10,
            "percent",
        ),
        ("async_sgd", "section 4.5", "time to measure", None, None, 581, "s"),
        ("srift", "section 5.3, Fig. 7", "90th percentile", None, None, 13.5, "percent"),
    ],
    ["paper", "place", "quantity", "subject", "bound", "value", "unit"],
    orient="row",
)
"""Rows as query `paper_figures` returns them."""


@pytest.fixture
def found(landed_round: Callable[[str], Round], home: Path) -> PaperEvaluation:
    """Return what papers show of a round, with one network that was judged."""
    round_, warehouse = landed_round(STUDY), Warehouse(home)
    warehouse.load()
    by_batch = pl.DataFrame(
        [("alexnet", 4, 2, -5.0, 7.5, 12.5)],
        ["dnn", "batch_size", "n", "mean", "absolute", "largest"],
        orient="row",
    )
    return replace(evaluate_papers(round_, warehouse), errors=RoundErrors(by_batch, {}))


def test_each_paper_shows_what_a_round_has_beside_what_it_prints(found: PaperEvaluation) -> None:
    page = papers.render([found], PRINTED)
    group = "Li et al., asynchronous SGD in TensorFlow (ICPE 2020): study paper, round 1"
    _, _, shown = page.partition("<main>")
    _, own, shown = shown.partition(f'<p class="group">{group}</p>')
    assert own
    shown, *_ = shown.split('<p class="group">')
    titles = re.findall("<h2>(.*?)</h2>", shown)
    assert titles[0] == "Errors by network and batch size"
    assert "What a profiled step consists of" in titles
    assert titles[-1] == "Speed of the links"
    errors, _, rest = shown.partition("What a profiled step")
    measured, printed = errors.split("<h3>In the paper</h3>")
    assert cells(measured)[1] == ["alexnet", "4", "2", "−5.0 %", "7.5 %", "12.5 %"]
    assert cells(printed)[1:] == [["section 4.2, Fig. 14", "largest error", "other DNNs", "≤ 10 %"]]
    assert "In the paper" not in rest
    assert "200.0 Mb/s" in rest and "not shaped" in rest
    assert page.count("All that it prints</h2>") == len(papers.PAPERS)
    assert "581 s" in page and "13.5 %" in page


def test_a_round_without_a_paper_s_probes_has_no_group_of_it(found: PaperEvaluation) -> None:
    page = papers.render([found], PRINTED)
    assert "Ceer: study" not in page and "PredictDDL (2023): study" not in page


def test_a_page_loads_nothing(found: PaperEvaluation) -> None:
    page = papers.render([found], PRINTED)
    assert "default-src 'none';" in page
    assert not re.findall(r"(src|srcset|action)=", page)


@pytest.mark.parametrize("name", papers.PAPERS)
def test_what_stands_beside_sections_is_in_the_history(name: str, home: Path) -> None:
    """A pattern that no printed figure has, or a title that no section has, shows nothing."""
    printed = Warehouse(home).query("paper_figures", paper=name)
    places = printed.select(pl.format("{}: {}", "place", "quantity")).to_series()
    sources = "".join(
        (CHECKOUT / "reports" / f"{module}.py").read_text() for module in (name, "papers")
    )
    for title, pattern in papers.PAPERS[name].beside.items():
        assert places.str.contains(pattern).any(), title
        assert (
            sources.count(title.partition(" of unseen")[0].removesuffix(" that fits did not see"))
            > 1
        ), title
