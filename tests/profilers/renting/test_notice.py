"""The notice of a node that is taken back: waited for there, told here."""

import os
import subprocess
import sys
import threading

import pytest

from profilers.clusters.base import SOURCE
from profilers.nodes.notices import VARIABLE, watch_for_notice
from tests.pipelines.runtime.metadata_service import TERMINATE, metadata_service


def test_a_notice_of_the_metadata_service_is_told() -> None:
    with metadata_service() as (url, service):
        service.notices[""] = TERMINATE
        command = [sys.executable, "-m", "profilers.nodes.notices"]
        env = {**os.environ, VARIABLE: url}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=env, cwd=SOURCE
        ) as program:
            notices: list[str] = []
            heard = threading.Event()

            def hear(words: str) -> None:
                notices.append(words)
                heard.set()

            watch_for_notice(program, hear)
            assert heard.wait(30)
            assert program.wait(30) == 0
    assert notices == ["terminate at 2026-01-05T18:02:00Z"]


@pytest.mark.parametrize("said", ["", "oh\n", "[]\n", '{"action": 1}\n'])
def test_a_program_that_ends_without_a_notice_tells_nothing(said: str) -> None:
    notices: list[str] = []
    command = ["printf", "%s", said]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        before = {*threading.enumerate()}
        watch_for_notice(program, notices.append)
        for thread in {*threading.enumerate()} - before:
            thread.join(10)
    assert notices == []
