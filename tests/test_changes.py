"""Follows docs/changes.md: runs its commands, and looks for what it says they print."""

import re
import shlex
from pathlib import Path

import pytest

from pipelines.notification import configured_webhook
from tests.pipelines.ran import stepcast
from warehouse.home import CHECKOUT

PAGE = CHECKOUT / "docs" / "changes.md"
_BLOCK = re.compile(r"^```sh\n(.*?)^```\n(?:```\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
_BLOCKS = _BLOCK.findall(PAGE.read_text())
_FIRST, *_ASKED, _TOLD = _BLOCKS


def words(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines() if line.strip()]


@pytest.mark.parametrize(("commands", "printed"), _ASKED, ids=lambda text: text[:40].strip())
def test_commands_print_what_the_page_says(
    commands: str,
    printed: str,
    repeated: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("STEPCAST_HOME", str(repeated))
    monkeypatch.setenv("DAGSTER_HOME", "/nowhere")
    monkeypatch.chdir(tmp_path)
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "stepcast"
        answer = stepcast(*arguments)
        assert answer.code == 0, answer.err
        shown = words(answer.out)
        assert not [line for line in words(printed) if line not in shown]
        if "--picture" in arguments:
            assert (tmp_path / "steps.svg").stat().st_size > 1000


def test_every_part_of_the_page_is_followed() -> None:
    assert "stepcast load data/reference" in _FIRST[0]
    commands = "".join(commands for commands, _ in _ASKED)
    assert [name for name in ("compare", "query", "history") if name not in commands] == []
    assert sum(bool(printed) for _, printed in _ASKED) == 3


def test_a_variable_names_a_webhook() -> None:
    lines = [line.removeprefix("export ").partition("=") for line in _TOLD[0].splitlines()]
    webhook = configured_webhook({name: value for name, _, value in lines})
    assert str(webhook) == "the webhook at chat.example.org"
