"""Tables have an end, and say by what their numbers are sorted."""

import pytest

from reports.html import (
    MOST_ROWS,
    Column,
    contents_list,
    fold_sections,
    group_sections,
    table,
)
from reports.wording import interval, number
from studies.messages import count
from tests.reports.pages import Page, cells


def test_a_long_table_counts_what_it_leaves_out() -> None:
    rows = [{"n": place} for place in range(MOST_ROWS + 3)]
    html = table([Column("n")], rows)
    assert len(cells(html)) == 1 + MOST_ROWS
    assert "And 3 more rows" in html
    assert "more rows" not in table([Column("n")], rows[:MOST_ROWS])


def test_numbers_in_several_units_are_sorted_by_their_value() -> None:
    rows = [{"text": "2 KiB", "bytes": 2048.0}, {"text": "1 MiB", "bytes": 1048576.0}]
    html = table([Column("size", "text", sorted_by="bytes")], rows)
    assert '<td class="n" data-v="2048.0">2 KiB</td>' in html
    assert cells(html) == [["size"], ["2 KiB"], ["1 MiB"]]


PARTS = ("<h2>Links &amp; more</h2><p>a</p><h2>S</h2>b", "", "<h2>Links &amp; more</h2>c")


def test_a_part_may_hold_several_sections() -> None:
    sections = group_sections({"": PARTS})
    assert [section.title for section in sections] == ["Links &amp; more", "S", "Links &amp; more"]
    assert [section.key for section in sections] == ["links-amp-more", "s", "links-amp-more-2"]
    assert [section.body for section in sections] == ["<p>a</p>", "b", "c"]


def test_what_has_no_heading_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with its <h2>, this one with '<p>stray"):
        group_sections({"": ["<p>stray</p><h2>S</h2>"]})


def test_links_lead_into_what_is_folded() -> None:
    sections = group_sections({"": PARTS})
    html = contents_list(sections) + fold_sections(sections)
    assert Page(html).open == []
    for section in sections:
        assert f'<a href="#{section.key}">' in html
        assert f'</summary><div id="{section.key}">' in html


def test_sections_stand_under_the_question_that_they_answer() -> None:
    sections = group_sections(
        {"How far off?": ["<h2>A</h2>a"], "Empty?": [""], "Why?": ["<h2>A</h2>b"]}
    )
    assert [(section.key, section.group) for section in sections] == [
        ("a", "How far off?"),
        ("a-2", "Why?"),
    ]
    for html in (contents_list(sections), fold_sections(sections)):
        assert html.index("How far off?") < html.index(">A<") < html.index("Why?")
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
