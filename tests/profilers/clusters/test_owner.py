import os
import subprocess
import sys

from profilers.clusters import owner


def test_prefixes_differ() -> None:
    assert owner.new_prefix() != owner.new_prefix()


def test_what_a_living_process_made_is_no_orphan() -> None:
    assert not owner.is_orphan(f"{owner.new_prefix()}-worker0")


def test_what_a_dead_process_made_is_an_orphan() -> None:
    program = "from profilers.clusters import owner; print(owner.new_prefix())"
    made = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert owner.is_orphan(f"{made.stdout.strip()}-worker0")


def test_a_process_that_ended_unasked_is_dead() -> None:
    program = "from profilers.clusters import owner; print(owner.new_prefix(), flush=True)"
    made = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert made.stdout is not None
    prefix = made.stdout.readline().strip()
    assert made.stdout.read() == ""
    # Its files are closed a moment before it has ended.
    os.waitid(os.P_PID, made.pid, os.WEXITED | os.WNOWAIT)
    assert owner.is_orphan(f"{prefix}-worker0")
    made.wait()


def test_a_later_process_with_the_same_pid_is_not_the_owner() -> None:
    assert owner.is_orphan(f"{owner.PREFIX}-{os.getpid()}-1-0-worker0")


def test_names_of_others_are_left_alone() -> None:
    assert not owner.is_orphan("docker-1-1-0-worker0")
    assert not owner.is_orphan("stepcast-notes")
