"""Probe `allreduce`: how long all-reduces of many sizes take, alone and several at once.

Source: Srift, section 4.2. Every rank times itself. What it waits for the last rank to start is
known from all of their starts, and taken off.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from statistics import fmean
from typing import cast

import polars as pl

from profilers.allreduce_node import TIMEOUT_S, RankConfig
from profilers.arrivals import Timed, Times, without_waiting
from profilers.clusters import Cluster, Node
from profilers.hostlock import host_lock
from profilers.programs import Message, Programs
from profilers.quiet import Patience
from profilers.readers.nccl_tests import bus_bandwidth_Bps
from profilers.result import ProbeResult, RunContext, Setting, failed, finished_run
from profilers.torch_nodes import START_TIMEOUT_S, Facts, cluster_nodes, environment, in_turn
from warehouse.records import BadInput, ProbeFailed

WARM_UPS = 3
POINT_PATIENCE_S = 10.0
"""For measuring one combination again: large buffers must not use up the patience for others."""


def measure(
    cluster: Cluster,
    context: RunContext,
    *,
    sizes_bytes: Sequence[int],
    world_sizes: Sequence[int],
    concurrent: Sequence[int] = (1,),
    trials: int,
    devices_per_node: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[ProbeResult]:
    """Time all-reduces of every size, by every number of ranks, so many at once.

    NCCL reduces where every node has as many GPUs as ranks, otherwise Gloo. Where nodes are of
    several types, each world size takes them in turn: two ranks are of two types.

    Args:
        cluster: workers; servers stay out.
        context: study and round.
        sizes_bytes: sizes of the buffers, multiples of 4.
        world_sizes: numbers of ranks, at least 2.
        concurrent: numbers of transfers at once, each between connections of its own.
        trials: counted repetitions of each combination, after `WARM_UPS` more.
        devices_per_node: ranks of each node.
        progress: told what runs now.

    Returns:
        For each world size a run with tables `allreduce`, one row per rank and trial (the mean of
        its transfers), and `cluster_node`, the nodes that took part. Failed runs from the first
        world size that failed.

    Raises:
        BadInput: sizes or world sizes that cannot be.
    """
    nodes = in_turn(cluster.of_role("worker"))
    _check(sizes_bytes, world_sizes, concurrent, len(nodes) * devices_per_node)
    remaining = list(world_sizes)
    started_at = datetime.now(UTC)
    try:
        with host_lock(progress), Programs(cluster, "all-reduce") as programs:
            ranks = _Ranks(cluster, programs, nodes, devices_per_node, progress)
            for world_size in world_sizes:
                started_at = datetime.now(UTC)
                rows, settings = _grid(ranks, world_size, sizes_bytes, concurrent, trials, progress)
                run = finished_run("allreduce", cluster, None, context, started_at, settings)
                taking_part = cluster_nodes(ranks.members(world_size))
                yield ProbeResult(run, None, {"allreduce": rows, "cluster_node": taking_part})
                remaining.pop(0)
    except ProbeFailed as error:
        for _ in remaining:
            yield failed("allreduce", cluster, None, context, started_at, error)


def _grid(
    ranks: "_Ranks",
    world_size: int,
    sizes_bytes: Sequence[int],
    concurrent: Sequence[int],
    trials: int,
    progress: Callable[[str], None],
) -> tuple[pl.DataFrame, dict[str, Setting]]:
    """Reduce buffers of every size, so many at once; return rows and what the run remembers."""
    ranks.connect(world_size, max(concurrent))
    rows: list[pl.DataFrame] = []
    stolen: list[float] = []
    for count, size in itertools.product(concurrent, sizes_bytes):
        progress(f"probe allreduce: {world_size} ranks, {count} × {size} B")
        reduce = partial(ranks.reduce, world_size, size, count, trials)
        measured = Patience(POINT_PATIENCE_S).quietly(reduce)
        rows.append(measured.value)
        stolen.append(measured.stolen)
    settings: dict[str, Setting] = {
        "world_size": world_size,
        "library": ranks.library,
        "devices_per_node": ranks.devices_per_node,
        "trials": trials,
        "warm_ups": WARM_UPS,
        "stolen_cpu_fraction": round(fmean(stolen), 4),
    }
    return pl.concat(rows), settings


class _Ranks:
    """The programs of all ranks, which have met."""

    def __init__(
        self,
        cluster: Cluster,
        programs: Programs,
        nodes: Sequence[Node],
        devices_per_node: int,
        progress: Callable[[str], None],
    ) -> None:
        self._programs, self.devices_per_node = programs, devices_per_node
        self._nodes: dict[str, Node] = {}
        progress(f"start all-reduce: {len(nodes)} node(s) load PyTorch")
        for node, device in itertools.product(nodes, range(devices_per_node)):
            name = f"{node.name}.{device}"
            self._nodes[name] = node
            config = RankConfig(cluster.interface, node.group.threads, device)
            programs.start(
                name,
                node,
                "profilers.allreduce_node",
                config.to_json(),
                environment(cluster, node),
            )
        ready = programs.expect(self._nodes, "ready", START_TIMEOUT_S)
        self._facts = {name: Facts.of(ready[name]) for name in self._nodes}
        gpus = all(len(one.devices) >= devices_per_node for one in self._facts.values())
        self.library = "nccl" if gpus else "gloo"
        store = {"address": nodes[0].address, "port": cluster.free_port(nodes[0])}
        for rank, name in enumerate(self._nodes):
            place = {"rank": rank, "ranks": len(self._nodes), "library": self.library}
            programs.tell(name, do="join", **place, **store)
        programs.expect(self._nodes, "joined", TIMEOUT_S)
        for name in self._nodes:
            programs.confine(name)

    def connect(self, world_size: int, concurrent: int) -> None:
        """Let the first ranks connect for so many transfers at once."""
        command = {"do": "group", "ranks": world_size, "concurrent": concurrent}
        self._programs.ask(self._nodes, "grouped", TIMEOUT_S, **command)

    def reduce(
        self, world_size: int, size_bytes: int, concurrent: int, trials: int
    ) -> pl.DataFrame:
        """Return rows of table allreduce."""
        names = list(self._nodes)[:world_size]
        command = {"size_bytes": size_bytes, "concurrent": concurrent, "times": WARM_UPS + trials}
        replies = self._programs.ask(
            names, "reduced", TIMEOUT_S * (WARM_UPS + trials), do="reduce", **command
        )
        timed = _without_waiting([replies[name] for name in names])
        mtu_bytes = min(self._facts[name].mtu_bytes for name in names)
        return pl.DataFrame(
            [
                {
                    "library": self.library,
                    "world_size": world_size,
                    "size_bytes": size_bytes,
                    "concurrent": concurrent,
                    "trial": one.trial,
                    "rank": one.rank,
                    "seconds": one.seconds,
                    "raw_seconds": one.raw_seconds,
                    "bus_bandwidth_Bps": bus_bandwidth_Bps(size_bytes, world_size, one.seconds),
                    "in_place": True,
                    "mtu_bytes": mtu_bytes,
                }
                for one in timed
            ]
        )

    def members(self, world_size: int) -> Mapping[Node, Facts]:
        """Return the nodes of the first ranks."""
        names = list(self._nodes)[:world_size]
        return {self._nodes[name]: self._facts[name] for name in names}


def _without_waiting(replies: Sequence[Message]) -> list[Timed]:
    def counted(key: str) -> list[Times]:
        return [cast(Times, reply[key])[WARM_UPS:] for reply in replies]

    return without_waiting(counted("starts_ns"), counted("ends_ns"))


def _check(
    sizes_bytes: Sequence[int],
    world_sizes: Sequence[int],
    concurrent: Sequence[int],
    ranks: int,
) -> None:
    if any(size < 4 or size % 4 for size in sizes_bytes):
        raise BadInput(f"sizes_bytes: expected multiples of 4, found {list(sizes_bytes)}")
    if any(not 2 <= size <= ranks for size in world_sizes):
        raise BadInput(
            f"world_sizes: expected 2 to {ranks}, the ranks of this cluster, found "
            f"{list(world_sizes)}; open a larger cluster or leave the others out"
        )
    if any(count < 1 for count in concurrent):
        raise BadInput(f"concurrent: expected 1 or more, found {list(concurrent)}")
