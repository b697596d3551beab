"""Who gives a command of an earlier version is told in one line what to use instead."""

import re

import pytest

from pipelines.cli.main import COMMANDS
from pipelines.cli.removed import REMOVED
from scripts.reference_pages import commands
from tests.pipelines.ran import Stepcast


@pytest.mark.parametrize("name", REMOVED)
def test_a_removed_command_says_what_to_use(stepcast: Stepcast, name: str) -> None:
    for arguments in ([*name.split(), "x", "--json"], ["--debug", *name.split(), "--help"]):
        answer = stepcast(*arguments)
        assert f"there is no `stepcast {name}` any more; use {REMOVED[name]}" in answer.refusal


def test_what_is_to_be_used_is_there() -> None:
    there = {name.removeprefix("stepcast ") for name, _ in commands()}
    assert not there & REMOVED.keys()
    for text in REMOVED.values():
        for words in re.findall(r"`stepcast ([a-z -]+)", text):
            assert words.split()[0] in COMMANDS, text
