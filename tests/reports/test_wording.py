"""Figures read well, and a missing one is a dash."""

import pytest
from scipy.stats import binom

from reports.wording import (
    are_few,
    by_chance,
    held_intervals,
    interval,
    link_speed,
    number,
    percent,
)
from studies.messages import count


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


def test_few_intervals_are_no_headline() -> None:
    """By the binomial distribution: of six that hold with 0.9 each, three hold in 1.5 of 100."""
    assert held_intervals(3, 6) == (
        "3 of 6",
        "fewer than chance allows: if nine of ten intervals hold, 4 to 6 of 6 are expected (95 %)",
    )
    assert held_intervals(4, 6)[1].startswith("6 are too few to judge intervals: if nine of ten")
    value, said = held_intervals(60, 72)
    assert value == "83.3 %"
    assert said == "60 of 72; if nine of ten intervals hold, 59 to 69 of 72 are expected (95 %)"
    assert held_intervals(40, 72)[1].endswith("; this is beyond chance")
    assert are_few(1) and are_few(10) and not are_few(100)


@pytest.mark.parametrize("n", [1, 6, 72, 3000])
def test_chance_is_that_of_the_binomial_distribution(n: int) -> None:
    low, high = (int(one) for one in binom.interval(0.95, n, 0.9))
    assert by_chance(n) == (low, high)
