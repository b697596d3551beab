"""Steady cores: how long a group waits for its quota, and what a paced node really gets."""

import json
import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta

import pytest

from profilers.clusters import open_cluster
from profilers.clusters.base import SOURCE
from profilers.clusters.emulated import Pacer
from profilers.steady.core_quota import ControlGroup, Speed, quota_factor
from warehouse.records import NodeGroup, ProbeFailed

SHARE = 0.2
LOOP = """
import sys, time
sys.stdin.readline()
began, had = time.monotonic(), time.process_time()
while time.monotonic() < began + 3:
    pass
print((time.process_time() - had) / (time.monotonic() - began))
"""
READINGS = """
import json, statistics, time
from profilers.steady.core_quota import gauges

def readings(gflops):
    for _ in range(9):
        time.sleep(0.02)
        yield gflops()

print(json.dumps([statistics.median(readings(gflops)) for gflops in gauges().values()]))
"""


def test_a_group_waits_as_much_longer_as_the_host_is_faster() -> None:
    group = ControlGroup("g", SHARE, 50.0)
    assert quota_factor(group, 50.0) == 1.0
    assert quota_factor(group, 80.0) == 1.6
    assert (quota_factor(group, 1.0), quota_factor(group, 1e6)) == (0.5, 8.0)


def test_the_latest_readings_of_all_processors_and_kinds_of_work_count_most() -> None:
    """The geometric mean of 90, 40, 60 and 60 is 60; one of four twice as fast is worth ⁴√2."""
    speed = Speed()

    def see(times: int, second: float) -> None:
        for _ in range(times):
            speed.saw(0, "products", 90.0, 0.1)
            speed.saw(0, "reads", 60.0, 0.1)
            speed.saw(1, "products", second, 0.1)
            speed.saw(1, "reads", 60.0, 0.1)

    see(50, 40.0)
    assert speed.gflops == pytest.approx(60.0)
    see(1, 80.0)
    assert 61 < speed.gflops < 64
    see(100, 80.0)
    assert speed.gflops == pytest.approx(60.0 * 2**0.25, rel=1e-3)


def test_every_kind_of_work_says_how_fast_this_core_is() -> None:
    """Of one core, in one unit: none is an order of magnitude off.

    With a single thread and pauses, as the program that paces has.
    """
    completed = subprocess.run(
        [sys.executable, "-c", READINGS],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(SOURCE)},
        text=True,
        capture_output=True,
        check=True,
    )
    readings = json.loads(completed.stdout)
    assert len(readings) == 3
    assert max(readings) < 10 * min(readings)


def test_the_program_ends_with_its_input() -> None:
    program = subprocess.run(
        [sys.executable, "-m", "profilers.steady.core_quota"],
        input=json.dumps({"name": "gone", "cpu_share": 0.2, "core_gflops": 1e-3}) + "\n",
        cwd=SOURCE,
        text=True,
        capture_output=True,
        timeout=30,
        check=False,
    )
    assert (program.returncode, program.stderr) == (0, "")


def _children(module: str) -> list[int]:
    """Return the processes of this one that run a module."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(os.getpid())],
        text=True,
        capture_output=True,
        check=True,
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if module in line]


def test_who_paces_says_how_fast_the_host_is_and_that_it_has_ended() -> None:
    pacer, began = Pacer(), datetime.now(UTC)
    assert pacer.host_gflops(began) is None
    pacer.add("gone", 0.2, 1e-3)
    try:
        deadline = time.monotonic() + 20
        while (gflops := pacer.host_gflops(began)) is None and time.monotonic() < deadline:
            time.sleep(0.1)
        assert gflops is not None and gflops > 0.1
        assert pacer.host_gflops(datetime.now(UTC) + timedelta(hours=1)) is None
        (pid,) = _children("profilers.steady.core_quota")
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with pytest.raises(ProbeFailed, match=r"paces steady cores has ended \(exit -9\)"):
            pacer.host_gflops(began)
    finally:
        pacer.stop()


@pytest.mark.measuring
@pytest.mark.cluster
def test_of_half_as_fast_a_core_a_node_gets_half_as_much(alone: None) -> None:
    groups = tuple(
        NodeGroup(role="worker", node_type=name, count=1, cpu_share=SHARE, core_gflops=gflops)
        for name, gflops in (("fast", 40.0), ("slow", 20.0))
    )
    with open_cluster("emulated", groups, None) as cluster:
        processes = []
        for node in cluster.nodes:
            processes.append(cluster.popen(node, [*cluster.python(node), "-c", LOOP]))
            cluster.confine(node, processes[-1])
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        fast, slow = (float(process.stdout.readline()) for process in processes if process.stdout)
    assert 1.1 < fast / slow < 3, "neither as much as the other nor all of the core"
