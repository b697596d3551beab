"""The minutes of a visit, by a clock that a test sets."""

import pytest

from fleet.watch import Budget
from profilers.renting.cap import BudgetExceeded


class Clock:
    """Seconds that only a test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_what_is_left_may_be_taken_and_no_more() -> None:
    clock = Clock()
    budget = Budget(60, clock=clock)
    assert budget.left_s == 60
    budget.may_take(60)
    clock.now_s += 20
    assert budget.left_s == 40
    budget.may_take(40)
    with pytest.raises(BudgetExceeded):
        budget.may_take(40.1)


def test_nothing_is_left_of_what_took_longer_than_expected() -> None:
    clock = Clock()
    budget = Budget(60, clock=clock)
    clock.now_s += 100
    assert budget.left_s == 0
    budget.may_take(0)
    with pytest.raises(BudgetExceeded):
        budget.may_take(1)


def test_what_was_spent_before_an_interruption_counts() -> None:
    budget = Budget(1200, spent_s=900, clock=Clock())
    assert budget.left_s == 300
    with pytest.raises(BudgetExceeded) as caught:
        budget.may_take(360)
    assert str(caught.value) == (
        "the next run takes about 6.0 min, and 5.0 min of 20.0 min are left; the next visit goes on"
    )
