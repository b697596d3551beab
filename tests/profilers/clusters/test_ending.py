"""Nothing is killed but what belongs to what is removed; for real, as root."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from profilers import commands
from profilers.clusters import netns, owner
from profilers.clusters.cgroups import end
from tests.profilers.clusters.machines import has_ended, is_running

DELETE = """
import sys
from pathlib import Path
from profilers.clusters import cgroups
from warehouse.records import ProbeFailed
cgroups.controllers = lambda: {"cpu": (2, Path(sys.argv[1]))}
try:
    cgroups.delete(sys.argv[2])
except ProbeFailed as error:
    print(error)
"""

CONTAINED = ["unshare", "--pid", "--fork", "--mount-proc"]


def unified() -> Path:
    """Return where control groups of version 2 are mounted; their limits may be elsewhere."""
    mounts = [line.split() for line in Path("/proc/self/mounts").read_text().splitlines()]
    return next(Path(folder) for _, folder, kind, *_ in mounts if kind == "cgroup2")


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process in a process group of its own."""
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        yield process
        process.kill()


def test_what_does_not_belong_is_left_alone(sleeper: "subprocess.Popen[bytes]") -> None:
    pids: list[int] = []

    def belongs(pid: int) -> bool:
        pids.append(pid)
        return False

    end([0, -1, 1, os.getpid(), sleeper.pid], belongs)
    assert pids == [sleeper.pid]
    assert is_running(sleeper.pid)
    end([sleeper.pid], lambda pid: True)
    assert has_ended(sleeper.pid)
    sleeper.wait()
    end([sleeper.pid], lambda pid: True)


@pytest.mark.cluster
def test_a_process_of_another_container_in_a_group_ends_nobody(
    sleeper: "subprocess.Popen[bytes]",
) -> None:
    """From a pid namespace of its own, it is listed as 0: whoever asks, in kill's words."""
    root, name = unified(), f"{owner.new_prefix()}-worker0"
    (root / name).mkdir()
    try:
        (root / name / "cgroup.procs").write_text(str(sleeper.pid))
        completed = subprocess.run(
            [*CONTAINED, sys.executable, "-c", DELETE, str(root), name],
            capture_output=True,
            text=True,
            start_new_session=True,
            check=False,
        )
        assert completed.returncode == 0, completed
        assert "its processes are of another container" in completed.stdout
        assert is_running(sleeper.pid)
    finally:
        sleeper.kill()
        sleeper.wait()
        (root / name).rmdir()


@pytest.mark.cluster
def test_a_name_of_the_hosts_own_network_ends_nobody(sleeper: "subprocess.Popen[bytes]") -> None:
    name = f"{owner.new_prefix()}-worker0"
    commands.run(["ip", "netns", "attach", name, str(os.getpid())])
    netns.delete(name)
    assert name not in netns.namespaces()
    assert is_running(sleeper.pid)


@pytest.mark.cluster
def test_what_runs_in_a_namespace_ends_with_it() -> None:
    name = f"{owner.new_prefix()}-worker0"
    commands.run(["ip", "netns", "add", name])
    inside = ["nsenter", f"--net={netns.NETNS / name}", "sh", "-c", "echo inside; exec sleep 1000"]
    with subprocess.Popen(inside, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"inside\n"  # nsenter takes a while to get there
        netns.delete(name)
        assert process.wait(timeout=10) == -9
