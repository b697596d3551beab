"""Progress: lines where there is no terminal, a bar where there is one."""

import io
import re

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


def test_without_a_plan_nothing_is_said_of_what_is_left() -> None:
    out = io.StringIO()
    LineProgress(TimeEstimate([]), out).say("one thing")
    assert re.fullmatch(r"\[ +0 s\] one thing\n", out.getvalue())


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
