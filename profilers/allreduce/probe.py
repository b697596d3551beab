"""Probe `allreduce`: how long all-reduces of many sizes take, alone and several at once.

Source: Srift, section 4.2. Every rank times itself. What it waits for the last rank to start is
known from all of their starts, and taken off.
"""

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import NamedTuple, cast

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.allreduce.program import TIMEOUT_S, AllreduceRankConfig
from profilers.clusters import Cluster, Node, netns
from profilers.clusters.base import LoopbackCluster
from profilers.links.probe import link_in_words
from profilers.nodes import torch_program
from profilers.nodes.programs import Message, Programs
from profilers.nodes.torch_jobs import Ranks
from profilers.nodes.torch_program import cluster_nodes, interleave_node_types
from profilers.probe import (
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Say,
    Setting,
    finished_run,
    start_s,
)
from profilers.readers.nccl_tests import bus_bandwidth_Bps
from profilers.scenarios import is_all_reduce, largest
from profilers.scenarios import take_turns as turns
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from warehouse import limits
from warehouse.fields import Bytes, Nodes, Repeats
from warehouse.records import Backend, BadInput, ProbeFailed, Record, Scenario
from warehouse.requirements import Subject

# What ranks of a collective operation wait for the last of them to arrive.


Times = Sequence[Sequence[int]]
"""Nanoseconds by repetition and transfer."""


class RankTime(NamedTuple):
    """A rank's seconds of a trial, the mean of its transfers; `raw_seconds` with waiting."""

    trial: int
    rank: int
    seconds: float
    raw_seconds: float


def without_waiting(starts_ns: Sequence[Times], ends_ns: Sequence[Times]) -> list[RankTime]:
    """Return each rank's time of each repetition, with and without the wait for the last to start.

    Args:
        starts_ns: by rank, when it started each transfer of each repetition, on one clock.
        ends_ns: likewise, when it had the sum.

    Raises:
        ProbeFailed: a rank had a sum before all had started, which only clocks can cause.
    """
    timed = []
    for trial, transfers in enumerate(zip(*starts_ns, strict=True)):
        latest = [max(starts) for starts in zip(*transfers, strict=True)]
        for rank, started in enumerate(transfers):
            ended = ends_ns[rank][trial]
            if any(end <= start for end, start in zip(ended, latest, strict=True)):
                raise ProbeFailed(
                    f"rank {rank} had its sum before the last rank started: the clocks of the "
                    "nodes differ by more than an all-reduce takes; synchronize them (chrony)"
                )
            timed.append(
                RankTime(
                    trial,
                    rank,
                    fmean(end - start for end, start in zip(ended, latest, strict=True)) / 1e9,
                    fmean(end - start for end, start in zip(ended, started, strict=True)) / 1e9,
                )
            )
    return timed


WARM_UPS = 3
POINT_PATIENCE_S = 10.0
"""For measuring one combination again: large buffers must not use up the patience for others."""
_REDUCE_S = 0.1
"""First guess of an all-reduce, of all sizes."""


def measure(
    cluster: Cluster,
    context: RunContext,
    *,
    sizes_bytes: Sequence[int],
    world_sizes: Sequence[int],
    concurrent: Sequence[int] = (1,),
    trials: int,
    devices_per_node: int = 1,
    worker: str = "",
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
        worker: what runs call the types of nodes; none: those of the cluster, joined by " + ".
        progress: told what runs now.

    Returns:
        For each world size a run with tables `allreduce`, one row per rank and trial (the mean of
        its transfers), and `cluster_node`, the nodes that took part.

    Raises:
        BadInput: sizes or world sizes that cannot be.
        ProbeFailed: the job failed.
    """
    nodes = interleave_node_types(cluster.of_role("worker"))
    check_grid(sizes_bytes, world_sizes, concurrent, len(nodes) * devices_per_node)
    each = devices_per_node

    def config(node: Node, device: int) -> str:
        return AllreduceRankConfig(cluster.interface, node.group.threads, device).to_json()

    types = " + ".join(dict.fromkeys(node.group.node_type for node in nodes))
    with host_lock(progress), Programs(cluster, "all-reduce") as programs:
        progress(f"start all-reduce: {len(nodes)} node(s) load PyTorch")
        ranks = Ranks(cluster, programs, nodes, "profilers.allreduce.program", config, each)
        for world_size in world_sizes:
            started_at = clock.now()
            rows, settings = _grid(ranks, world_size, sizes_bytes, concurrent, trials, progress)
            settings["worker"] = worker or types
            run = finished_run("allreduce", cluster, None, context, started_at, settings)
            taking_part = cluster_nodes(ranks.members(ranks.first(world_size)))
            yield ProbeResult(run, None, {"allreduce": rows, "cluster_node": taking_part})


def _grid(
    ranks: Ranks,
    world_size: int,
    sizes_bytes: Sequence[int],
    concurrent: Sequence[int],
    trials: int,
    progress: Callable[[str], None],
) -> tuple[pl.DataFrame, dict[str, Setting]]:
    """Reduce buffers of every size, so many at once; return rows and what the run remembers."""
    ranks.connect(ranks.first(world_size), max(concurrent))
    rows: list[pl.DataFrame] = []
    stolen: list[float] = []
    for count, size in itertools.product(concurrent, sizes_bytes):
        progress(f"probe allreduce: {world_size} ranks, {count} × {size} B")
        reduce = partial(_reduce, ranks, world_size, size, count, trials)
        measured = Patience(ranks.cluster.cpu_times, POINT_PATIENCE_S).measure_undisturbed(reduce)
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


def _reduce(
    ranks: Ranks, world_size: int, size_bytes: int, concurrent: int, trials: int
) -> pl.DataFrame:
    """Reduce buffers of one size, so many at once; return rows of table allreduce."""
    names = ranks.first(world_size)
    times = WARM_UPS + trials
    command = {"size_bytes": size_bytes, "concurrent": concurrent, "times": times}
    replies = ranks.programs.ask(names, "reduced", TIMEOUT_S * times, do="reduce", **command)
    mtu_bytes = min(ranks.facts[name].mtu_bytes for name in names)
    return pl.DataFrame(
        [
            {
                "library": ranks.library,
                "world_size": world_size,
                "size_bytes": size_bytes,
                "concurrent": concurrent,
                "trial": rank_time.trial,
                "rank": rank_time.rank,
                "seconds": rank_time.seconds,
                "raw_seconds": rank_time.raw_seconds,
                "bus_bandwidth_Bps": bus_bandwidth_Bps(size_bytes, world_size, rank_time.seconds),
                "in_place": True,
                "mtu_bytes": mtu_bytes,
            }
            for rank_time in rank_times([replies[name] for name in names])
        ]
    )


def rank_times(replies: Sequence[Message]) -> list[RankTime]:
    """Return each rank's times from what ranks answer to `reduce`; leave out the warm-ups.

    Raises:
        ProbeFailed: as `arrivals.without_waiting`.
    """

    def counted(key: str) -> list[Times]:
        return [cast(Times, reply[key])[WARM_UPS:] for reply in replies]

    return without_waiting(counted("starts_ns"), counted("ends_ns"))


def mtu_bytes(backend: Backend) -> int | None:
    """Return the MTU of a backend's links, None where machines tell once they are up."""
    match backend:
        case "emulated":
            return netns.MTU_BYTES
        case "loopback":
            return torch_program.mtu_bytes(LoopbackCluster.interface)
        case _:
            return None


def check_grid(
    sizes_bytes: Sequence[int],
    world_sizes: Sequence[int],
    concurrent: Sequence[int],
    ranks: int,
) -> None:
    """Refuse what cannot be reduced among so many ranks.

    Raises:
        BadInput: naming the argument.
    """
    if any(size < 4 or size % 4 for size in sizes_bytes):
        raise BadInput(f"sizes_bytes: expected multiples of 4, found {list(sizes_bytes)}")
    if any(not 2 <= size <= ranks for size in world_sizes):
        raise BadInput(
            f"world_sizes: expected 2 to {ranks}, the ranks of this cluster, found "
            f"{list(world_sizes)}; open a larger cluster or leave the others out"
        )
    if any(count < 1 for count in concurrent):
        raise BadInput(f"concurrent: expected 1 or more, found {list(concurrent)}")


class Settings(Record):
    """The grid: bytes, ranks (none: powers of 2 up to all), transfers at once; repeats of each."""

    sizes_bytes: tuple[Bytes, ...] = Field(
        default=tuple(4 ** (exponent + 1) for exponent in range(12)),
        min_length=1,
        max_length=limits.LISTED,
    )
    world_sizes: tuple[Nodes, ...] = Field(default=(), max_length=limits.LISTED)
    concurrent: tuple[Nodes, ...] = Field(default=(1,), max_length=limits.LISTED)
    trials: Repeats = 5


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each world size on each speed of links, types of nodes, and devices of a node."""
    run_settings = settings.model_dump(exclude={"world_sizes"})
    for key in dict.fromkeys(_cluster_of(scenario) for scenario in requested.cluster):
        speed, worker, each = key
        scenario = largest(
            candidate for candidate in requested.cluster if _cluster_of(candidate) == key
        )
        most = scenario.strategy.workers * each
        worlds = settings.world_sizes or _powers_of_two(most)
        nodes = turns(scenario.nodes, -(-max(worlds) // each))
        if len(nodes) < len(worker.split(" + ")):
            raise BadInput(
                f"world_sizes: expected one that takes a node of each type of {worker}, found "
                f"{max(worlds)} ranks at most; add {len(worker.split(' + ')) * each}"
            )
        ranks = sum(group.count for group in nodes) * each
        check_grid(settings.sizes_bytes, worlds, settings.concurrent, ranks)
        points = len(settings.sizes_bytes) * len(settings.concurrent)
        for world_size in worlds:
            yield PlannedRun(
                Subject(
                    "allreduce",
                    None,
                    speed,
                    {"worker": worker, "devices_per_node": each, "world_size": world_size},
                ),
                "profile",
                f"probe allreduce, {link_in_words(speed)}, {worker}, {world_size} ranks",
                # All of them, whatever is missing: a round that is resumed has the same cluster.
                nodes,
                run_settings,
                expected_s=points * settings.trials * _REDUCE_S,
                start=key,
                start_s=start_s(nodes),
            )


def _cluster_of(scenario: Scenario) -> tuple[float | None, str, int]:
    """Return the speed of links, the types of nodes in turn, and the devices of each."""
    types = " + ".join(group.node_type for group in scenario.worker_groups)
    return scenario.link_mbps, types, scenario.strategy.devices_per_node


def _powers_of_two(most: int) -> tuple[int, ...]:
    return tuple(2**exponent for exponent in range(1, max(most, 2).bit_length()))


def _run(
    cluster: Cluster, needs: Sequence[PlannedRun], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    return measure(
        cluster,
        context,
        **needs[0].settings,
        world_sizes=[int(need.subject.config["world_size"]) for need in needs],
        devices_per_node=int(needs[0].subject.config["devices_per_node"]),
        worker=str(needs[0].subject.config["worker"]),
        progress=say,
    )


PROBE = Probe(
    name="allreduce",
    what="Bus bandwidth of all-reduces by size, ranks and transfers at once.",
    kind="pytorch",
    tables=("allreduce", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=_run,
    concerns=lambda scenario: is_all_reduce(scenario, "pytorch"),
    essential=frozenset({"sizes_bytes", "concurrent"}),
)
