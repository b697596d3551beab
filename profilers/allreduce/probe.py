"""Probe `allreduce`: how long all-reduces of many sizes take, alone and several at once.

Source: Srift, section 4.2. Every rank times itself. What it waits for the last rank to start is
known from all of their starts, and taken off. Where nodes are of several types, each world size
takes them in turn: two ranks are of two types.
"""

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from statistics import fmean
from typing import Annotated, NamedTuple

import polars as pl
from pydantic import Field

from profilers.clusters import netns
from profilers.clusters.base import LoopbackCluster
from profilers.links.probe import link_in_words
from profilers.nodes import program
from profilers.nodes.programs import Message, cluster_nodes
from profilers.nodes.torch_jobs import Ranks
from profilers.nodes.torch_rank import TIMEOUT_S
from profilers.probe import Measured, PlannedRun, Probe, RequestedScenarios, Session
from profilers.readers.nccl_tests import bus_bandwidth_Bps
from profilers.scenarios import is_all_reduce, largest, take_turns
from profilers.steady.host import Patience
from warehouse import limits
from warehouse.fields import Bytes, Nodes, Repeats
from warehouse.records import Backend, BadInput, ProbeFailed, Record, Scenario
from warehouse.requirements import Subject

WARM_UPS = 3
POINT_PATIENCE_S = 10.0
"""For measuring one combination again: large buffers must not use up the patience for others."""
_REDUCE_S = 0.1
"""First guess of an all-reduce, of all sizes."""

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
            seconds, raw_seconds = (
                fmean(end - start for end, start in zip(ended, since, strict=True)) / 1e9
                for since in (latest, started)
            )
            timed.append(RankTime(trial, rank, seconds, raw_seconds))
    return timed


def rank_times(replies: Sequence[Message]) -> list[RankTime]:
    """Return each rank's times from what ranks answer to `reduce`; leave out the warm-ups."""
    starts_ns, ends_ns = (
        [reply[key][WARM_UPS:] for reply in replies] for key in ("starts_ns", "ends_ns")
    )
    return without_waiting(starts_ns, ends_ns)


def _run(session: Session, needs: Sequence[PlannedRun]) -> Iterator[Measured]:
    """Reduce among each number of ranks; a row of a trial has the mean of its transfers."""
    subject, settings = needs[0].subject, Settings(**needs[0].settings)
    nodes = session.cluster.of_role("worker")
    session.say(f"start all-reduce: {len(nodes)} node(s) load PyTorch")
    each = int(subject.config["devices_per_node"])
    with Ranks(session.cluster, "all-reduce", nodes, "profilers.nodes.torch_rank", each) as ranks:
        for need in needs:
            world_size = int(need.subject.config["world_size"])
            session.begin(f"probe allreduce: {world_size} ranks")
            names, rows = ranks.first(world_size), list[pl.DataFrame]()
            patience = Patience(session.cluster.cpu_times)
            ranks.connect(names, max(settings.concurrent))
            for count, size in itertools.product(settings.concurrent, settings.sizes_bytes):
                session.say(f"probe allreduce: {world_size} ranks, {count} × {size} B")
                patience.left_s = POINT_PATIENCE_S
                reduce = partial(_reduce, ranks, names, size, count, settings.trials)
                rows.append(patience.measure_undisturbed(reduce).value)
            yield Measured(
                {"allreduce": pl.concat(rows), "cluster_node": cluster_nodes(ranks.members(names))},
                {
                    "world_size": world_size,
                    "library": ranks.library,
                    "devices_per_node": each,
                    "trials": settings.trials,
                    "warm_ups": WARM_UPS,
                    "stolen_cpu_fraction": round(patience.stolen, 4),
                    "worker": subject.config["worker"],
                },
            )


def _reduce(
    ranks: Ranks, names: Sequence[str], size_bytes: int, concurrent: int, trials: int
) -> pl.DataFrame:
    """Reduce buffers of one size, so many at once; return rows of table allreduce."""
    times = WARM_UPS + trials
    command = {"size_bytes": size_bytes, "concurrent": concurrent, "times": times}
    replies = ranks.ask(names, "reduced", TIMEOUT_S * times, do="reduce", **command)
    return pl.DataFrame(
        [
            {
                "library": ranks.library,
                "world_size": len(names),
                "size_bytes": size_bytes,
                "concurrent": concurrent,
                **rank_time._asdict(),
                "bus_bandwidth_Bps": bus_bandwidth_Bps(size_bytes, len(names), rank_time.seconds),
                "in_place": True,
                "mtu_bytes": min(ranks.ready[name]["mtu_bytes"] for name in names),
            }
            for rank_time in rank_times(replies)
        ]
    )


def mtu_bytes(backend: Backend) -> int | None:
    """Return the MTU of a backend's links, None where machines tell once they are up."""
    match backend:
        case "emulated":
            return netns.MTU_BYTES
        case "loopback":
            return program.mtu_bytes(LoopbackCluster.interface)
        case _:
            return None


class Settings(Record):
    """The grid: bytes, ranks (none: powers of 2 up to all), transfers at once; repeats of each."""

    sizes_bytes: tuple[Annotated[Bytes, Field(multiple_of=4)], ...] = Field(
        default=tuple(4 ** (exponent + 1) for exponent in range(12)),
        min_length=1,
        max_length=limits.LISTED,
    )
    world_sizes: tuple[Annotated[Nodes, Field(ge=2)], ...] = Field(
        default=(), max_length=limits.LISTED
    )
    concurrent: tuple[Nodes, ...] = Field(default=(1,), max_length=limits.LISTED)
    trials: Repeats = 5


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each world size on each speed of links, types of nodes, and devices of a node."""
    for key in dict.fromkeys(map(_cluster_of, requested.cluster)):
        speed, worker, each = key
        scenario = largest(
            candidate for candidate in requested.cluster if _cluster_of(candidate) == key
        )
        most = scenario.strategy.workers * each
        powers = tuple(2**exponent for exponent in range(1, max(most, 2).bit_length()))
        worlds = settings.world_sizes or powers
        # All of them, whatever is missing: a round that is resumed has the same cluster.
        nodes = take_turns(scenario.nodes, -(-max(worlds) // each))
        if len(nodes) < len(scenario.worker_groups):
            raise BadInput(
                f"world_sizes: expected one that takes a node of each type of {worker}, found "
                f"{max(worlds)} ranks at most; add {len(scenario.worker_groups) * each}"
            )
        points = len(settings.sizes_bytes) * len(settings.concurrent)
        for world_size in worlds:
            about = {"worker": worker, "devices_per_node": each, "world_size": world_size}
            yield PlannedRun(
                Subject("allreduce", None, speed, about),
                "profile",
                f"probe allreduce, {link_in_words(speed)}, {worker}, {world_size} ranks",
                nodes,
                settings.model_dump(exclude={"world_sizes"}),
                expected_s=points * settings.trials * _REDUCE_S,
                start=key,
            )


def _cluster_of(scenario: Scenario) -> tuple[float | None, str, int]:
    """Return the speed of links, the types of nodes in turn, and the devices of each."""
    types = " + ".join(group.node_type for group in scenario.worker_groups)
    return scenario.link_mbps, types, scenario.strategy.devices_per_node


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
