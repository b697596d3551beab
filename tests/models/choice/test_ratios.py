"""Past errors as probabilities: ranks by hand, and exchangeable ratios keep what is promised."""

from math import inf, nan
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from models.choice.candidates import Ratios, fewest_ratios, normal_ratios, thin_ratios, widen_ratios

NINE = Ratios(values=(1.3, 0.8, 0.9, 1.0, 1.1, 0.95, 1.05, 1.2, 0.85), basis="nine")
positive = st.floats(0.01, 100)
some = st.lists(positive, min_size=1, max_size=60).map(
    lambda values: Ratios(values=tuple(values), basis="any")
)


def test_ranks_of_nine_ratios() -> None:
    """A tenth ratio is in each of the ten gaps with a probability of a tenth."""
    assert NINE.probability_above(1.3) == pytest.approx(0.1)
    assert NINE.probability_above(1.2) == pytest.approx(0.2)
    assert NINE.probability_above(0.1) == 1
    assert NINE.high(0.1) == 1.3
    assert NINE.high(0.2) == 1.2
    assert NINE.high(0.09) is None
    assert NINE.low(0.1) == 0.8
    assert NINE.low(0.09) is None
    assert NINE.spread == pytest.approx((0.3 + 0.2 + 0.1 + 0 + 0.1 + 0.05 + 0.05 + 0.2 + 0.15) / 9)


@pytest.mark.parametrize(("level", "count"), [(0.1, 9), (0.05, 19), (0.5, 1), (0.3, 3)])
def test_so_many_are_needed_and_no_fewer(level: float, count: int) -> None:
    assert fewest_ratios(level) == count
    assert Ratios(values=(1.0,) * count, basis="").high(level) == 1
    if count > 1:
        assert Ratios(values=(1.0,) * (count - 1), basis="").high(level) is None


def test_without_ratios_nothing_is_known() -> None:
    none = Ratios(values=(), basis="none")
    assert none.probability_above(1.0) == 1
    assert (none.low(0.1), none.high(0.1), none.spread) == (None, None, inf)


@given(some, st.floats(0.01, 0.99))
def test_the_upper_end_is_the_least_that_is_unlikely_enough(ratios: Ratios, level: float) -> None:
    high = ratios.high(level)
    for value in ratios.values:
        unlikely = ratios.probability_above(value) <= level + 1e-9
        assert unlikely == (high is not None and value >= high)


@given(some, positive, positive)
def test_more_time_is_never_likelier_to_be_exceeded(ratios: Ratios, a: float, b: float) -> None:
    assert ratios.probability_above(max(a, b)) <= ratios.probability_above(min(a, b))


def test_exchangeable_ratios_exceed_the_upper_end_no_more_often_than_said() -> None:
    """Of draws from one law, at most a tenth is above the end that twenty others give."""
    random = Random(1)
    draws = 4000
    above = 0
    for _ in range(draws):
        *past, new = (random.lognormvariate(0.1, 0.3) for _ in range(21))
        high = Ratios(values=tuple(past), basis="").high(0.1)
        above += high is not None and new > high
    # (20 + 1) / 10 rounds up to 19 of 20, so that the true share is 2 of 21.
    assert above / draws == pytest.approx(2 / 21, abs=0.015)


def test_a_normal_law_has_its_percentiles() -> None:
    ratios = normal_ratios(0.2, "law")
    assert ratios.high(0.16) == pytest.approx(2.718281828 ** (0.2 * 0.9945), rel=1e-3)
    assert ratios.high(0.5) == pytest.approx(1)
    assert ratios.probability_above(ratios.values[0]) == pytest.approx(0.99)


def test_widened_ratios_are_as_much_farther_from_one() -> None:
    assert widen_ratios((0.5, 1.0, 2.0), 2, "").values == pytest.approx((0.25, 1.0, 4.0))


@given(some, st.integers(1, 20))
def test_thinned_ratios_are_some_of_them_in_order(ratios: Ratios, most: int) -> None:
    few = thin_ratios(ratios, most)
    assert len(few) == min(most, len(ratios.values))
    assert list(few) == sorted(few)
    assert set(few) <= set(ratios.values)


@pytest.mark.parametrize("values", [(0.0,), (-1.0,), (inf,), (1.0, nan)])
def test_what_is_no_ratio_is_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(ValidationError, match="ratios above 0"):
        Ratios(values=values, basis="")
