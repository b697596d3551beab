"""The page about prices says what happens: its commands print what it shows."""

import re
import shlex
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from profilers import clock
from tests.aws import DAY, Aws
from tests.pipelines.ran import stepcast
from warehouse.home import CHECKOUT

PAGE = CHECKOUT / "docs" / "prices.md"
_BLOCK = re.compile(r"^```\n(\$ stepcast .*?)^```", re.DOTALL | re.MULTILINE)
_RUN = re.compile(r"(?<=-prices-)[0-9a-f]{8}")
_CSV = re.compile(r"^```\n(node_type,.*?)^```", re.DOTALL | re.MULTILINE)
_MORNINGS = [DAY + timedelta(minutes=1), DAY + timedelta(days=1, minutes=1)]


def followed() -> Iterator[tuple[str, str]]:
    """Yield each command of the page, and what it shows."""
    for block in _BLOCK.findall(PAGE.read_text()):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, shown = part.partition("\n")
            yield command, shown


def plain(text: str) -> str:
    """Return text without random numbers, blank lines, and blanks at the end of lines."""
    lines = (line.rstrip() for line in _RUN.sub("xxxxxxxx", text).splitlines())
    return "\n".join(line for line in lines if line)


def change(aws: Aws) -> None:
    """Let a day pass."""
    aws.on_demand["us-east-1", "p3.2xlarge"] = 2.95
    aws.spot.append(("p3.2xlarge", "us-east-1b", 0.72, DAY + timedelta(hours=17)))


@pytest.mark.exhaustive
def test_the_page_is_followed(
    home: Path, aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (own,) = _CSV.findall(PAGE.read_text())
    Path("node_prices.csv").write_text(own)
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    mornings = iter(_MORNINGS)
    commands = list(followed())
    assert len(commands) == 7
    for command, shown in commands:
        if " collect " in command:
            morning = next(mornings)
            monkeypatch.setattr(clock, "now", lambda morning=morning: morning)
            if morning == _MORNINGS[1]:
                change(aws)
        answer = stepcast(*shlex.split(command)[1:])
        assert answer.code == 0, answer.err
        assert plain(answer.out) == plain(shown), command
    assert next(mornings, None) is None
