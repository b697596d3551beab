import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from profilers import hostlock

HOLD = """
import sys
from pathlib import Path
from profilers import hostlock
hostlock.LOCK = Path(sys.argv[1])
with hostlock.host_lock():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A host lock of this test alone."""
    path = tmp_path / "lock"
    monkeypatch.setattr(hostlock, "LOCK", path)
    return path


@pytest.fixture
def other(lock: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_nobody_holds_it_at_first(lock: Path) -> None:
    assert hostlock.holder() == ""


def test_names_the_holder(other: "subprocess.Popen[str]") -> None:
    assert hostlock.holder() == str(other.pid)


def test_waits_for_the_holder_and_says_so(other: "subprocess.Popen[str]") -> None:
    told: list[str] = []

    def release(message: str) -> None:
        told.append(message)
        other.kill()

    with hostlock.host_lock(release):
        assert told == [f"waiting for the measurement of process {other.pid}"]


def test_a_killed_holder_holds_nothing(other: "subprocess.Popen[str]") -> None:
    os.kill(other.pid, signal.SIGKILL)
    other.wait()
    assert hostlock.holder() == ""


def test_is_re_entrant_and_released(lock: Path) -> None:
    with hostlock.host_lock(), hostlock.host_lock():
        inside = subprocess.run(
            [
                sys.executable,
                "-c",
                f"from pathlib import Path; from profilers import hostlock;"
                f"hostlock.LOCK = Path({str(lock)!r}); print(hostlock.holder())",
            ],
            capture_output=True,
            text=True,
            check=True,
        )
        assert inside.stdout.strip() == str(os.getpid())
    assert hostlock.holder() == ""
