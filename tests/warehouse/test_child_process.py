"""Child processes: none outlives who started it, and none takes more than it may."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.profilers.clusters.machines import is_running
from warehouse.child_process import bound, most_memory_bytes

MAKE = """
import subprocess, sys, time
from warehouse.child_process import bound
alone = bound(["sh", "-c", 'echo $$ > "$0" && exec sleep 600', sys.argv[1] + "/alone"])
several = 'sleep 600 & echo $$ $! > "$0" && wait'
group = bound(["sh", "-c", several, sys.argv[1] + "/group"], with_descendants=True)
subprocess.Popen(alone)
subprocess.Popen(group, start_new_session=True)
print("started", flush=True)
time.sleep(600)
"""


@pytest.fixture
def maker(tmp_path: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process that has started a program, and another with one of its own."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKE, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        yield process
        process.kill()


def ends(pids: list[int]) -> bool:
    """Tell whether all of these processes end by themselves."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and any(map(is_running, pids)):
        time.sleep(0.02)
    return not any(map(is_running, pids))


def pids_of(*files: Path) -> list[int]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and not all(
        file.exists() and file.stat().st_size for file in files
    ):
        time.sleep(0.02)
    return [int(pid) for file in files for pid in file.read_text().split()]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_and_all_that_it_started_end_with_who_started_it(
    maker: "subprocess.Popen[str]", tmp_path: Path, number: signal.Signals
) -> None:
    pids = pids_of(tmp_path / "alone", tmp_path / "group")
    assert len(pids) == 3
    assert all(map(is_running, pids))
    maker.send_signal(number)
    maker.wait()
    assert ends(pids)


def test_what_is_killed_at_once_leaves_nothing(
    maker: "subprocess.Popen[str]", tmp_path: Path
) -> None:
    """Children that have not asked the kernel yet find that their parent is another one."""
    maker.kill()
    maker.wait()
    time.sleep(0.5)  # a program that had begun would have written by now
    assert ends([int(pid) for file in tmp_path.iterdir() for pid in file.read_text().split()])


@pytest.mark.parametrize("with_descendants", [False, True])
def test_an_orphan_does_not_start(tmp_path: Path, with_descendants: bool) -> None:
    words = bound(["touch", str(tmp_path / "made")], with_descendants=with_descendants)
    orphan = ["1" if word == str(os.getpid()) else word for word in words]
    assert subprocess.run(orphan, check=False).returncode == 1
    assert not (tmp_path / "made").exists()
    assert subprocess.run(words, check=False).returncode == 0
    assert (tmp_path / "made").exists()


def test_a_program_is_refused_more_memory_than_it_may_have() -> None:
    words = [sys.executable, "-c", "bytearray(2 * 10**9)"]
    ended = subprocess.run(bound(words, memory_bytes=10**9), capture_output=True, check=False)
    assert ended.stderr.splitlines()[-1] == b"MemoryError"
    assert subprocess.run(bound(words, memory_bytes=most_memory_bytes())).returncode == 0


@pytest.mark.parametrize(("with_descendants", "code"), [(False, -24), (True, 128 + 24)])
def test_a_program_ends_after_its_processor_time(with_descendants: bool, code: int) -> None:
    words = bound(["sh", "-c", "while :; do :; done"], cpu_s=1, with_descendants=with_descendants)
    ended = subprocess.run(words, start_new_session=True, check=False)
    assert ended.returncode == code
