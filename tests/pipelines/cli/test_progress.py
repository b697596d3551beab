"""Progress: lines where there is no terminal, a bar where there is one."""

import io
import re
from collections.abc import Sequence
from itertools import accumulate

import pytest
from rich.console import Console
from rich.progress import Progress as Display

from pipelines.cli.progress import BarProgress, LineProgress, TimeEstimate, show_progress
from studies.plan import Task

PLAN = [Task("first", 100), Task("second", 100)]


def test_lines_say_what_begins_and_what_is_left() -> None:
    out = io.StringIO()
    lines = LineProgress(TimeEstimate(PLAN), out)
    lines.say("one thing")
    lines.say("one thing")
    lines.finished("first")
    lines.say("another")
    for _ in range(2):
        lines.warn("look out")
    first, second, warning = out.getvalue().splitlines()
    assert re.fullmatch(r"\[ +0 s, about 3 min 20 s left\] one thing", first)
    assert re.fullmatch(r"\[ +0 s, about .* left\] another", second)
    assert warning == "warning: look out"


def test_the_bar_moves_and_names_what_runs() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    with Display(console=console, auto_refresh=False) as display:
        bar = BarProgress(TimeEstimate(PLAN), display)
        bar.say("one thing")
        bar.finished("first")
        for _ in range(2):
            bar.warn("look out")
        display.refresh()
    assert "one thing" in out.getvalue()
    assert out.getvalue().count("warning: look out") == 1


def test_without_a_terminal_there_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(PLAN) as progress:
        progress.say("one thing")
    assert "one thing" in capsys.readouterr().err


def test_on_a_terminal_there_is_a_bar(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with show_progress(PLAN) as progress:
        progress.say("a thing with a name that is much longer than the eighty columns of this line")
    drawn = capsys.readouterr().err
    assert "about 3 min 20 s left" in drawn
    assert "a thing with a name" in drawn


PLANNED = (Task("a", 60), Task("b", 60), Task("c", 120))


def test_before_anything_is_over_the_plan_is_believed() -> None:
    estimate = TimeEstimate(PLANNED, now=0)
    assert estimate.left_s(0) == pytest.approx(240)
    assert estimate.left_s(20) == pytest.approx(220)


def test_a_task_that_takes_long_makes_its_own_end_and_the_rest_look_slow_at_once() -> None:
    estimate = TimeEstimate(PLANNED, now=0)
    pace = (500 + 30) / (60 + 30)
    assert estimate.left_s(500) == pytest.approx(0.1 * 500 + 180 * pace)


def shown(
    taken_s: Sequence[float], plan: Sequence[Task], every_s: int = 20
) -> list[tuple[int, float]]:
    """Return what is left by the clock, while the tasks of a plan take these seconds."""
    estimate, ends = TimeEstimate(plan, now=0), list(accumulate(taken_s))
    points, over = [], 0
    for now in range(0, int(ends[-1]), every_s):
        while ends[over] <= now:
            estimate.finish(plan[over].name, now=ends[over])
            over += 1
        points.append((now, estimate.left_s(now)))
    return points


LONG = [Task(f"{kind} {place}", 60, kind) for kind in "xy" for place in range(10)]


@pytest.mark.parametrize("slow", [1, 4, 40])
def test_what_is_left_does_not_stand_still(slow: float) -> None:
    """However long one of several tasks takes: before, it stood as long as that task ran."""
    taken_s = [task.expected_s * (slow if place == 3 else 1) for place, task in enumerate(LONG)]
    points = shown(taken_s, LONG)
    for (_, before), (_, after) in zip(points, points[6:], strict=False):
        assert abs(after - before) > 1


def test_what_was_slow_makes_the_rest_look_slow() -> None:
    estimate = TimeEstimate(PLANNED, now=0)
    estimate.finish("a", now=150)
    assert estimate.left_s(150) == pytest.approx(2 * 180)


def test_at_the_end_nothing_is_left() -> None:
    estimate = TimeEstimate(PLANNED, now=0)
    for name in "abc":
        estimate.finish(name, now=9)
    assert estimate.left_s(9) == 0
    assert estimate.elapsed_s(9) == 9
