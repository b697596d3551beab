"""Nodes that are made slower: what clusters are given, and what is told of it."""

import ctypes
import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.drift import slow_memory
from benchmarks.drift.collecting import need_of
from benchmarks.drift.injecting import SIZES, Injection, cluster_for, memory_rate_Bps
from benchmarks.traces import a_run
from profilers.clusters.emulated import EmulatedCluster
from profilers.probe import Need
from warehouse.asks import Subject
from warehouse.records import BadInput

MAPS = """
00400000-00401000 r-xp 00000000 08:01 17 /usr/bin/python
00600000-00601000 rw-p 00000000 08:01 17 /usr/bin/python
01000000-01003000 rw-p 00000000 00:00 0 [heap]
7f0000000000-7f0000200001 rw-p 00000000 00:00 0
7f0000300000-7f0000400000 r--p 00000000 00:00 0
7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]
"""


@pytest.mark.parametrize("by", SIZES)
def test_one_thing_is_slower_at_a_time(by: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("profilers.clusters.emulated.check_host", lambda _: None)
    need = need_of("emu.avx2.s15")
    calm = cluster_for(need, None)
    assert (calm.groups, calm.link_mbps) == (need.nodes, 200)
    links = cluster_for(need, Injection("links", by))
    assert links.groups == need.nodes
    assert links.link_mbps == pytest.approx(200 * (1 - by))
    share = cluster_for(need, Injection("cpu_share", by))
    assert share.link_mbps == 200
    assert share.groups[0].cpu_share == pytest.approx(0.15 * (1 - by))
    whole = share.groups[0].model_copy(update={"cpu_share": 0.15})
    assert (whole, *share.groups[1:]) == need.nodes
    memory = cluster_for(need, Injection("memory", by, rate_Bps=1e8))
    assert (memory.groups, memory.link_mbps) == (need.nodes, 200)
    assert type(memory) is not EmulatedCluster


def test_a_run_tells_what_was_slower_and_the_speed_that_links_should_have() -> None:
    run = a_run("run").model_copy(update={"config": {"link_mbps": 180.0, "turns": 5}})
    assert Injection.of(run) is None
    one = Injection("memory", 0.1, 1e8)
    told = one.label(run, 200.0)
    assert Injection.of(told) == one
    assert (told.config["link_mbps"], told.config["turns"]) == (200.0, 5)
    assert told.model_copy(update={"config": run.config}) == run


def test_what_cannot_be_slower_is_refused() -> None:
    need = need_of("emu.avx2.s15")
    unshaped = replace(need, subject=Subject("watch", None, None, need.subject.config))
    whole = tuple(group.model_copy(update={"cpu_share": None}) for group in need.nodes)
    cases: list[tuple[Need, Injection, str]] = [
        (unshaped, Injection("links", 0.1), "links without a speed cannot be made slower"),
        (replace(need, nodes=whole), Injection("cpu_share", 0.1), "a node without a cpu_share"),
    ]
    for wrong, injection, message in cases:
        with pytest.raises(BadInput, match=message):
            cluster_for(wrong, injection)


@given(st.floats(0.05, 0.5), st.floats(0.1, 1.0), st.floats(1e-11, 1e-9))
def test_the_rate_is_what_earlier_runs_cost(by: float, share: float, each_s: float) -> None:
    """A marked byte costs `each_s` of processor time: of each second, so many cost a part."""

    def slower(rate_Bps: float) -> float:
        return 1 - 1 / (1 + rate_Bps * each_s / share)

    done = [(rate_Bps, slower(rate_Bps)) for rate_Bps in (1e7, 1e8)]
    assert slower(memory_rate_Bps(by, share, done)) == pytest.approx(by)
    assert memory_rate_Bps(by, share, []) > 0


def test_only_memory_of_its_own_is_marked() -> None:
    ranges = list(slow_memory.written(MAPS.strip()))
    assert ranges == [(0x1000000, 0x3000), (0x7F0000000000, 0x200001)]
    pieces = list(slow_memory.chunks(iter(ranges)))
    assert sum(length for _, length in pieces) == 0x203001
    assert [length for _, length in pieces] == [0x3000, 1 << 20, 1 << 20, 1]


def test_marked_pages_were_not_used_since() -> None:
    """The kernel counts what a process has used (/proc/PID/smaps); marking takes that back."""
    pages = mmap.mmap(-1, 64 * mmap.PAGESIZE)
    pages.write(b"x" * len(pages))
    start = ctypes.addressof(ctypes.c_char.from_buffer(pages))
    process = slow_memory.Process(os.getpid())
    before = _referenced_kb(start)
    process.mark(start, len(pages))
    assert before == len(pages) // 1024
    assert _referenced_kb(start) < before


def test_it_ends_with_the_process() -> None:
    process = subprocess.Popen(["sleep", "60"])
    arguments = [str(process.pid), "1e9"]
    slowing = subprocess.Popen([sys.executable, "-m", "benchmarks.drift.slow_memory", *arguments])
    with pytest.raises(subprocess.TimeoutExpired):
        slowing.wait(timeout=1)
    process.kill()
    process.wait()
    assert slowing.wait(timeout=30) == 0


def _referenced_kb(start: int) -> int:
    """Return how much of the mapping that holds an address was used."""
    ours = False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and not first.endswith(":"):
            low, high = (int(one, 16) for one in first.split("-"))
            ours = low <= start < high
        elif ours and first == "Referenced:":
            return int(rest[0])
    raise AssertionError(f"no mapping holds {start:x}")
