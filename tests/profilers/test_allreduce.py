"""The all-reduce probe: its arithmetic on typed-in times, and real Gloo between two nodes."""

import json
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from models.srift import allreduce_samples
from profilers.allreduce import probe as allreduce
from profilers.clusters import Node
from profilers.clusters.base import SOURCE
from profilers.clusters.node_types import node_group
from profilers.nodes.programs import cluster_nodes, interleave_node_types
from profilers.nodes.torch_rank import clock_offset_ns
from profilers.probe import RequestedScenarios
from tests.leftovers import left_behind
from tests.profilers.training import LINK_MBPS, measured, scenario
from warehouse.records import Backend, NodeGroup, ProbeFailed

MIB = 2**20
REGROUPED = """
import socket
from torch.distributed import distributed_c10d
from profilers.nodes.program import obey
from profilers.nodes.torch_rank import Rank
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
rank = Rank({"threads": 1, "device": 0}, lambda event, **facts: None)
rank.join(0, 1, "gloo", "127.0.0.1", port)
counts = []
for _ in range(3):
    rank.group([0], 2)
    counts.append(len(distributed_c10d._world.pg_map))
print(counts, flush=True)
obey({})
"""
"""Prints how many process groups there are after each of three times that a rank connects.

It ends as programs on nodes do: an interpreter that closes down beside threads of Gloo may abort.
"""


def test_groups_that_are_no_longer_used_are_destroyed() -> None:
    program = [sys.executable, "-c", REGROUPED]
    ran = subprocess.run(program, cwd=SOURCE, text=True, input="", capture_output=True, check=True)
    counts = json.loads(ran.stdout.splitlines()[-1])
    assert len(counts) == 3
    assert len(set(counts)) == 1


def test_waiting_for_the_last_rank_is_taken_off() -> None:
    # Rank 1 starts 200 ns after rank 0 in the first repetition, before it in the second.
    starts = [[[1000], [5000]], [[1200], [4900]]]
    ends = [[[2000], [6000]], [[2100], [6100]]]
    timed = allreduce.without_waiting(starts, ends)
    assert [(timing.trial, timing.rank) for timing in timed] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert [timing.raw_seconds for timing in timed] == pytest.approx([1e-6, 0.9e-6, 1e-6, 1.2e-6])
    assert [timing.seconds for timing in timed] == pytest.approx([0.8e-6, 0.9e-6, 1e-6, 1.1e-6])
    at_once = allreduce.without_waiting([[[0, 100]], [[50, 120]]], [[[400, 600]], [[410, 590]]])
    assert at_once[0].raw_seconds == pytest.approx((400 + 500) / 2 * 1e-9)
    assert [timing.seconds for timing in at_once] == pytest.approx([415e-9, 415e-9])
    with pytest.raises(ProbeFailed, match="rank 0 had its sum before the last rank started"):
        allreduce.without_waiting([[[1000]], [[9000]]], [[[2000]], [[9900]]])


def test_the_quickest_answer_sets_the_clock() -> None:
    # The other clock is 1000 ahead; the first answer was held up on its way back.
    assert clock_offset_ns([(0, 1010, 500), (600, 1610, 620)]) == 1000
    assert clock_offset_ns([(1600, 610, 1620)]) == -1000


def nodes(*types: str) -> list[Node]:
    """Workers of these types."""
    return [
        Node(
            f"worker{i}", "worker", i, f"10.0.0.{i}", NodeGroup(role="worker", node_type=t, count=1)
        )
        for i, t in enumerate(types)
    ]


def test_the_first_ranks_are_of_all_types() -> None:
    mixed = interleave_node_types(nodes("a", "a", "a", "b", "c"))
    assert [node.index for node in mixed] == [0, 3, 4, 1, 2]


def test_nodes_are_described_by_type_where_it_says_and_by_themselves_else() -> None:
    (whole,) = nodes("p3.8xlarge")
    group = NodeGroup(role="worker", node_type="e", count=1, cpu_share=0.25, memory_bytes=MIB)
    share = Node("worker1", "worker", 1, "10.0.0.9", group)
    said = {"cores": 32, "memory_bytes": 99, "devices": ["V100"] * 4}
    table = cluster_nodes({whole: said, share: {**said, "devices": []}})
    shown = table.select("cores", "memory_bytes", "device_count", "device_name").rows()
    assert shown == [(32.0, 99, 4, "V100"), (0.25, MIB, 0, None)]


@pytest.mark.cluster
@pytest.mark.parametrize("backend", ["emulated", "loopback"])
def test_two_nodes_of_two_types_reduce(backend: Backend, home: Path, tmp_path: Path) -> None:
    types = ("emu.native.c25", "emu.avx2.c25")
    pair = scenario(*(node_group("worker", name, 1) for name in types))
    if backend == "loopback":
        pair = pair.model_copy(update={"link_mbps": None})
    (result,) = measured(
        "allreduce",
        tmp_path,
        RequestedScenarios(cluster=(pair,)),
        backend,
        sizes_bytes=[4, MIB],
        concurrent=[1, 2],
        trials=2,
    )
    assert left_behind() == []
    assert result.run.config["library"] == "gloo"
    rows = result.tables["allreduce"]
    # Two sizes, one or two at once, two trials, two ranks.
    assert rows.height == rows.unique(["size_bytes", "concurrent", "trial", "rank"]).height == 16
    assert rows.filter(~pl.col("seconds").is_between(0, pl.col("raw_seconds"), "right")).is_empty()
    assert set(rows["mtu_bytes"]) == ({1500} if backend == "emulated" else {65536})
    if backend == "emulated":
        # Two ranks send the size itself, which takes a link of this speed at least this long.
        first = rows.filter(pl.col("size_bytes") == MIB).group_by("concurrent", "trial")
        longest_s = first.agg(pl.col("raw_seconds").max())["raw_seconds"]
        assert (longest_s > MIB * 8 / (LINK_MBPS * 1e6) * 0.95).all()
    samples = allreduce_samples.samples(
        *(result.tables[name].with_columns(run_id=pl.lit("run")) for name in result.tables)
    )
    assert set(samples["node_types"]) == {"emu.avx2.c25+emu.native.c25"}
    assert samples.height == 8
