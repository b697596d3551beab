import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from profilers.steady import hostlock

HOLD = """
import sys
from profilers.steady import hostlock
hostlock.NAME = "\\0" + sys.argv[1]
with hostlock.host_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a host lock of this test alone."""
    name = str(tmp_path)[-90:]
    monkeypatch.setattr(hostlock, "NAME", f"\0{name}")
    return name


@pytest.fixture
def other(lock: str) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_waits_for_the_holder_and_says_so(other: "subprocess.Popen[str]") -> None:
    messages: list[str] = []

    def release(message: str) -> None:
        messages.append(message)
        other.kill()

    with hostlock.host_lock(release):
        assert messages == [f"waiting for the measurement of process {other.pid}"]


def test_a_killed_holder_holds_nothing(other: "subprocess.Popen[str]") -> None:
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert hostlock.holder() == ""


def test_is_re_entrant_and_released(lock: str) -> None:
    with hostlock.host_lock(), hostlock.host_lock():
        inside = subprocess.run(
            [
                sys.executable,
                "-c",
                f"from profilers.steady import hostlock;"
                f"hostlock.NAME = '\\0' + {lock!r}; print(hostlock.holder())",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert inside.stdout.strip() == f"process {os.getpid()}"
    assert hostlock.holder() == ""


@pytest.mark.cluster
def test_users_exclude_each_other(lock: str) -> None:
    with (
        hostlock.host_lock(),
        subprocess.Popen(
            [sys.executable, "-c", AS_NOBODY, lock], stdout=subprocess.PIPE, text=True
        ) as waiting,
    ):
        assert waiting.stdout is not None
        message = f"waiting for the measurement of process {os.getpid()}\n"
        assert waiting.stdout.readline() == message
        waiting.kill()


AS_NOBODY = """
import os, sys
from profilers.steady import hostlock
os.setgroups([]); os.setgid(65534); os.setuid(65534)
hostlock.NAME = "\\0" + sys.argv[1]
with hostlock.host_lock(lambda text: print(text, flush=True)):
    pass
"""


def test_it_is_handed_on_one_at_a_time(lock: str) -> None:
    """Several wait; none holds it while another does."""
    program = """
import sys, time
from profilers.steady import hostlock
hostlock.NAME = "\\0" + sys.argv[1]
with hostlock.host_lock():
    began = time.monotonic()
    time.sleep(0.2)
    print(began, time.monotonic())
"""
    with hostlock.host_lock():
        waiting = [
            subprocess.Popen([sys.executable, "-c", program, lock], stdout=subprocess.PIPE)
            for _ in range(3)
        ]
    spans = sorted(
        tuple(map(float, process.communicate(timeout=60)[0].split())) for process in waiting
    )
    assert len(spans) == 3
    assert all(end <= began for (_, end), (began, _) in pairwise(spans))
