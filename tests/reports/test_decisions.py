"""Decisions have a table of their own, as the history judges them."""

import polars as pl

from reports.study_sections import DECISIONS
from tests.reports.pages import cells, headings

ROW = {
    "chooser": "recommend",
    "late": 0.1,
    "minimize": "cost",
    "questions": 9,
    "declined": 2,
    "missed": 1,
    "blown": 0,
    "best": 5,
    "mean_regret_percent": 1.5,
    "p90_regret_percent": 4.0,
    "framework": "pytorch",
    "strategy": "all_reduce",
}


def test_decisions_are_shown_as_they_were_judged() -> None:
    html = DECISIONS.html(pl.DataFrame([ROW, ROW | {"late": None, "mean_regret_percent": None}]))
    assert headings(html) == ["Who decides best what to rent"]
    assert cells(html)[1] == [
        "recommend", "cost", "10.0 %", "9", "2", "1", "0", "5", "1.5 %", "4.0 %",
    ]  # fmt: skip
    assert (cells(html)[2][2], cells(html)[2][8]) == ("—", "—")


def test_where_nobody_decided_there_is_no_section() -> None:
    assert DECISIONS.html(None) == ""
    assert DECISIONS.html(pl.DataFrame([ROW]).clear()) == ""
