"""Sections fold behind their headings, and are found by keys of their own."""

import pytest

from reports.html import contents_list, fold_sections, group_sections
from tests.reports.pages import Balanced

PARTS = ("<h2>Links &amp; more</h2><p>a</p><h2>S</h2>b", "", "<h2>Links &amp; more</h2>c")


def test_a_part_may_hold_several_sections() -> None:
    found = group_sections({"": PARTS})
    assert [one.title for one in found] == ["Links &amp; more", "S", "Links &amp; more"]
    assert [one.key for one in found] == ["links-amp-more", "s", "links-amp-more-2"]
    assert [one.body for one in found] == ["<p>a</p>", "b", "c"]


def test_what_has_no_heading_is_refused() -> None:
    with pytest.raises(ValueError, match="begins with its <h2>, this one with '<p>stray"):
        group_sections({"": ["<p>stray</p><h2>S</h2>"]})


def test_a_title_without_letters_has_a_key() -> None:
    found = group_sections({"": ["<h2>β</h2>", "<h2>α</h2>"]})
    assert [section.key for section in found] == ["section", "section-2"]


def test_links_lead_into_what_is_folded() -> None:
    found = group_sections({"": PARTS})
    html = contents_list(found) + fold_sections(found)
    assert Balanced(html).open == []
    for one in found:
        assert f'<a href="#{one.key}">' in html
        assert f'</summary><div id="{one.key}">' in html


def test_sections_stand_under_the_question_that_they_answer() -> None:
    found = group_sections(
        {"How far off?": ["<h2>A</h2>a"], "Empty?": [""], "Why?": ["<h2>A</h2>b"]}
    )
    assert [(one.key, one.group) for one in found] == [("a", "How far off?"), ("a-2", "Why?")]
    for html in (contents_list(found), fold_sections(found)):
        assert html.index("How far off?") < html.index(">A<") < html.index("Why?")
        assert "Empty?" not in html
