"""Tables have an end, and say by what their numbers are sorted."""

import re

import pytest

from reports.html import MOST_ROWS, Column, page, section, table
from reports.wording import interval, number
from studies.messages import count
from tests.reports.pages import Page, cells


def test_a_long_table_counts_what_it_leaves_out() -> None:
    rows = [{"n": place} for place in range(MOST_ROWS + 3)]
    html = table([Column("n")], rows)
    assert len(cells(html)) == 1 + MOST_ROWS
    assert "And 3 more rows" in html
    assert "more rows" not in table([Column("n")], rows[:MOST_ROWS])


def test_links_lead_into_folded_sections_under_the_question_that_they_answer() -> None:
    again = section("Links &amp; more", "<p>c</p>")
    html = page(
        "t", "", {"How far off?": [section("S", "b"), again], "Empty?": [None], "Why?": [again]}
    )
    assert Page(html).open == []
    _, _, shown = html.partition("</header>")
    links, keys = re.findall(r'<a href="#(.*?)">', shown), re.findall(r'<div id="(.*?)">', shown)
    assert links == keys and len(set(keys)) == 3
    for part in shown.split("<main>"):
        assert part.index("How far off?") < part.index(">S<") < part.index("Why?")
        assert part.count(">Links &amp; more<") == 2
    assert "Empty?" not in html


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *((None, "—"), (0.0, "0.00"), (9.876, "9.88"), (123.4, "123")),
        *((0.01234, "0.0123"), (0.5, "0.5"), (0.000456, "0.000456")),
    ],
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_intervals_and_counts() -> None:
    assert interval(1.0, 2.5) == "[1.00, 2.50]"
    assert interval(None, None) == ""
    assert (count(1, "run"), count(2, "run")) == ("1 run", "2 runs")
