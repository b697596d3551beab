"""Programs that answer, fail, die and stay silent, as plain processes."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from profilers.clusters import open_cluster, reap
from profilers.nodes.programs import ProgramKilled, Programs
from profilers.nodes.tf_stepper import FreeStepper
from warehouse import limits
from warehouse.records import NodeGroup, ProbeFailed

NODES = (NodeGroup(role="worker", node_type="any", count=2),)


@pytest.fixture
def programs() -> Iterator[Programs]:
    """Two echoing programs, a and b."""
    with open_cluster("loopback", NODES, None) as cluster, Programs(cluster, "the job") as started:
        for name, node in zip("ab", cluster.nodes, strict=True):
            started.start(name, node, "tests.profilers.echo_node")
        yield started


def test_all_answers_come_and_nothing_else(programs: Programs) -> None:
    answers = programs.ask(["a", "b"], "echoed", 30, do="echo", words=[1, "two"])
    assert [answer["back"] for answer in answers] == [[1, "two"]] * 2


def test_a_failure_is_told_with_its_last_words(programs: Programs) -> None:
    with pytest.raises(ProbeFailed, match=r"b of the job ended early \(exit 1: what went wrong\)"):
        programs.ask(["b"], "echoed", 30, do="fail")


def test_being_killed_is_told_apart(programs: Programs) -> None:
    with pytest.raises(ProgramKilled, match="killed, most likely out of memory"):
        programs.ask(["a"], "echoed", 30, do="die")


def test_last_words_and_the_end_of_a_program_are_heard(programs: Programs) -> None:
    programs.tell("a", do="echo", words=[3])
    assert programs.hear(30) == ("a", {"event": "noise"})
    programs.tell("b", do="fail")
    heard = [programs.hear(30), programs.hear(30)]
    assert sorted(heard, key=str) == [("a", {"event": "echoed", "back": [3]}), ("b", None)]
    assert (programs.exit_code("b"), programs.said("b")) == (1, "what went wrong")
    programs.send_signal("a", signal.SIGKILL)
    assert programs.hear(30) == ("a", None)
    assert programs.hear(0.01) is None


def test_half_a_line_of_a_killed_program_is_no_message(programs: Programs) -> None:
    programs.tell("a", do="half")
    assert programs.hear(30) == ("a", None)


@pytest.mark.parametrize("line", ["no JSON", "[1]", '{"a": 1}', "[" * 100_000, "x" * 2_000_000])
def test_a_line_that_is_no_message_ends_the_program(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.setattr(limits, "JSON_BYTES", 1_000_000)
    with pytest.raises(ProbeFailed, match="a of the job told no message: "):
        programs.ask(["a"], "echoed", 30, do="chatter", line=line)


def test_silence_ends_the_wait(programs: Programs) -> None:
    with pytest.raises(ProbeFailed, match="no program of the job answered in time"):
        programs.expect(["b", "a"], "echoed", 0.1)


def test_programs_on_rented_nodes_that_say_nothing_count_as_lost(programs: Programs) -> None:
    programs.cluster.silence_s = 0.1
    with pytest.raises(ProbeFailed, match=r"has said anything for 0\.1 s, .* `silence_s`"):
        programs.expect(["b", "a"], "echoed", 3600)


def test_what_a_killed_job_left_is_reaped(home: Path) -> None:
    """Its folder is in the home, where nobody else may enter."""
    with subprocess.Popen(
        [sys.executable, "-c", JOB], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as killed:
        assert killed.stdout is not None
        folder = Path(killed.stdout.readline().strip())
        assert folder not in (home / path for path in reap())
        assert (folder / "a").exists()
        killed.kill()
    assert folder.parent.parent == home / "run"
    assert folder.parent.stat().st_mode & 0o777 == 0o700
    assert folder in (home / path for path in reap())
    assert not folder.exists()


JOB = """
import sys
from profilers.clusters import open_cluster, reap
from profilers.nodes.programs import Programs
from warehouse import limits
from warehouse.records import NodeGroup
nodes = (NodeGroup(role="worker", node_type="any", count=1),)
with open_cluster("loopback", nodes, None) as cluster, Programs(cluster, "the job") as programs:
    programs.start("a", cluster.nodes[0], "tests.profilers.echo_node")
    print(programs._folder, flush=True)
    sys.stdin.read()
"""


class Session:
    """Runs nothing."""

    def make_callable(self, step: object) -> Callable[[], None]:
        return lambda: None


def test_workers_rest_for_another_while_after_each_step() -> None:
    messages: list[dict[str, object]] = []

    def say(event: str, **facts: object) -> None:
        messages.append({"event": event, **facts})

    stepper = FreeStepper(Session(), None, None, say)
    stepper.train(rest_s=0.1)
    time.sleep(1)
    stepper.halt()
    deadline = time.monotonic() + 10
    while messages[-1]["event"] != "halted" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert messages[-1]["event"] == "halted"
    steps = [
        (int(str(message["start_us"])), int(str(message["end_us"]))) for message in messages[:-1]
    ]
    rests_us = [after[0] - before[1] for before, after in pairwise(steps)]
    assert len(rests_us) >= 3
    assert median(rests_us) > 5_000
    assert len(set(rests_us)) > 1
