"""Tables have an end, and say by what their numbers are sorted."""

from reports.html import MOST_ROWS, Column, table, text_column
from tests.reports.pages import cells


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


def test_values_keep_their_digits() -> None:
    column = Column("n", lambda _: "1.2 million", sorted_by="n")
    assert 'data-v="1234567.5"' in table([column], [{"n": 1234567.5}])


def test_a_long_name_at_the_head_of_a_column_may_break() -> None:
    """Twelve systems side by side are wider than a page, as long as their names are not broken."""
    names = ["network", "ceer_pytorch_paper", "a<b_c"]
    html = table([text_column(name, lambda _: "all") for name in names], [{}])
    assert ">ceer_<wbr>pytorch_<wbr>paper</th>" in html
    assert ">a&lt;b_<wbr>c</th>" in html
    assert cells(html) == [["network", "ceer_pytorch_paper", "a&lt;b_c"], ["all"] * 3]
