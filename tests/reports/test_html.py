"""Tables have an end, and say by what their numbers are sorted."""

from reports.html import MOST_ROWS, Cell, table
from tests.reports.pages import cells


def test_a_long_table_counts_what_it_leaves_out() -> None:
    rows = [[Cell(str(place))] for place in range(MOST_ROWS + 3)]
    html = table(["n"], rows)
    assert len(cells(html)) == 1 + MOST_ROWS
    assert "And 3 more rows" in html
    assert "more rows" not in table(["n"], rows[:MOST_ROWS])


def test_numbers_in_several_units_are_sorted_by_their_value() -> None:
    html = table(["size"], [[Cell("2 KiB", value=2048.0)], [Cell("1 MiB", value=1048576.0)]])
    assert '<td class="n" data-v="2048.0">2 KiB</td>' in html
    assert cells(html) == [["size"], ["2 KiB"], ["1 MiB"]]


def test_values_keep_their_digits() -> None:
    assert 'data-v="1234567.5"' in table(["n"], [[Cell("1.2 million", value=1234567.5)]])


def test_a_long_name_at_the_head_of_a_column_may_break() -> None:
    """Twelve systems side by side are wider than a page, as long as their names are not broken."""
    html = table(["network", "ceer_pytorch_paper", "a<b_c"], [[Cell("all", is_number=False)] * 3])
    assert ">ceer_<wbr>pytorch_<wbr>paper</th>" in html
    assert ">a&lt;b_<wbr>c</th>" in html
    assert cells(html) == [["network", "ceer_pytorch_paper", "a&lt;b_c"], ["all"] * 3]
