"""What is left follows the plan, corrected by what has happened."""

import pytest

from pipelines.estimate import Estimate, readable
from studies.plan import Task

PLAN = (Task("a", 60), Task("b", 60), Task("c", 120))


def test_before_anything_is_over_the_plan_is_believed() -> None:
    estimate = Estimate(PLAN, now=0)
    assert estimate.left_s(0) == pytest.approx(240)
    assert estimate.left_s(20) == pytest.approx(220)


def test_a_task_that_takes_long_leaves_the_others_their_time() -> None:
    assert Estimate(PLAN, now=0).left_s(500) == pytest.approx(180)


def test_what_was_slow_makes_the_rest_look_slow() -> None:
    estimate = Estimate(PLAN, now=0)
    estimate.finish("a", now=150)
    assert estimate.left_s(150) == pytest.approx(2 * 180)


def test_what_was_quick_makes_the_rest_look_quick() -> None:
    estimate = Estimate(PLAN, now=0)
    estimate.finish("a", now=15)
    assert estimate.left_s(15) == pytest.approx(180 / 2)


def test_unplanned_tasks_change_nothing() -> None:
    estimate = Estimate(PLAN, now=0)
    estimate.finish("z", now=15)
    assert estimate.left_s(15) == pytest.approx(225)


def test_at_the_end_nothing_is_left() -> None:
    estimate = Estimate(PLAN, now=0)
    for name in "abc":
        estimate.finish(name, now=9)
    assert estimate.left_s(9) == 0
    assert estimate.elapsed_s(9) == 9


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "5 s"), (12, "10 s"), (54, "55 s"), (58, "1 min"), (84, "1 min 20 s"), (3000, "50 min")],
)
def test_durations_are_readable(seconds: float, text: str) -> None:
    assert readable(seconds) == text
