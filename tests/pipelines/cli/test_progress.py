"""Progress: a line for each thing that begins, with what is left by the pace so far."""

import re

import pytest

from pipelines.cli.progress import LineProgress
from studies.plan import Task

PLAN = [Task("a", 60), Task("b", 60), Task("c", 120)]


def test_lines_say_what_begins_and_what_is_left(capsys: pytest.CaptureFixture[str]) -> None:
    lines = LineProgress(PLAN)
    for text in ("one thing", "one thing", "another"):
        lines.say(text)
    for _ in range(2):
        lines.warn("look out")
    first, second, warning = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"\[ +0 s, about 4 min left\] one thing", first)
    assert second.endswith("] another")
    assert warning == "warning: look out"
