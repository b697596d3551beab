"""Figures read well, and a missing one is a dash."""

import pytest

from reports.wording import interval, link_speed, number, percent
from studies.words import count


@pytest.mark.parametrize(
    ("value", "text"), [(None, "—"), (0.0, "0.00"), (9.876, "9.88"), (123.4, "123")]
)
def test_numbers(value: float | None, text: str) -> None:
    assert number(value) == text


def test_percentages() -> None:
    assert percent(None) == "—"
    assert percent(3.14) == "3.1 %"
    assert percent(3.14, signed=True) == "+3.1 %"
    assert percent(-3.14, signed=True) == "−3.1 %"


def test_intervals_and_counts() -> None:
    assert interval(1.0, 2.5) == "[1.00, 2.50]"
    assert interval(None, None) == ""
    assert (count(1, "run"), count(2, "run")) == ("1 run", "2 runs")
    assert (link_speed(200.0), link_speed(None)) == ("200 Mb/s", "not shaped")
