"""Probe `watch`: in under a minute, whether nodes of a type are still as fast as they were.

Two nodes: on the first, steps of a small network and copies of memory; flows to and from the
second. The kinds take turns, so that a slow moment of the host hits all of them. Each turn is a
window, so that a run knows its own noise. `fleet.drift` compares runs.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from statistics import fmean
from typing import Any, cast

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.clusters import Cluster, Node
from profilers.links import probe as links
from profilers.links.probe import link_in_words
from profilers.nodes.programs import BaseJob
from profilers.nodes.torch_program import START_TIMEOUT_S, environment
from profilers.probe import (
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Setting,
    finished_run,
    one_by_one,
    start_s,
)
from profilers.steady.gauges import GAUGE, MemoryGauge
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from profilers.torch_compute.program import ComputeConfig
from profilers.watch.program import COPIED_BYTES
from warehouse import limits
from warehouse.fields import Repeats, Seconds
from warehouse.records import NodeGroup, Record
from warehouse.requirements import Subject

# A small network in training and copies of memory on one node: started, asked for, ended.


DNN, IMAGE_SIZE, BATCH_SIZE = "small_cnn", 24, 4
_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class WorkTotals:
    """How often something was done, and the seconds and processor seconds of all."""

    times: int
    wall_s: float
    cpu_s: float


class WatchJob(BaseJob):
    """The program of `profilers.watch.program` on a node; a context manager.

    Raises:
        ProbeFailed: the program died.
    """

    def __init__(self, cluster: Cluster, node: Node) -> None:
        super().__init__(cluster, f"watch of {node.group.node_type}")
        self._cluster, self._node = cluster, node

    def train(self, seconds: float) -> WorkTotals:
        """Train for about so long; return what steps took."""
        return self._ask("train", "trained", seconds)

    def copy(self, seconds: float) -> WorkTotals:
        """Copy memory for about so long; return what copies took."""
        return self._ask("copy", "copied", seconds)

    def _ask(self, do: str, answer: str, seconds: float) -> WorkTotals:
        name = self._node.name
        timeout_s = _TIMEOUT_S + seconds
        reply = self._programs.ask([name], answer, timeout_s, do=do, seconds=seconds)[name]
        totals = cast(Mapping[str, Any], reply)
        return WorkTotals(int(totals["times"]), float(totals["wall_s"]), float(totals["cpu_s"]))

    def _start(self) -> None:
        node, programs = self._node, self._programs
        threads, inter_op = node.group.threads, node.group.inter_op_threads
        network = (DNN, IMAGE_SIZE)
        config = ComputeConfig(
            self._cluster.interface, *network, threads, inter_op, replicated=False, branches=False
        )
        config_json = json.dumps({**asdict(config), "batch_size": BATCH_SIZE})
        variables = environment(self._cluster, node)
        programs.start(node.name, node, "profilers.watch.program", config_json, variables)
        programs.expect([node.name], "ready", START_TIMEOUT_S)
        programs.confine(node.name)


STEP_TIME, STEP_CPU = "watch_step_time_s", "watch_step_cpu_s"
CPU_SHARE, MEMORY = "watch_cpu_share", "watch_memory_Bps"
TO_SERVER, FROM_SERVER = "watch_to_server_Bps", "watch_from_server_Bps"
GAUGE_US, HOST_GFLOPS = "watch_gauge_us", "watch_host_gflops"
HOST_MEMORY = "watch_host_bursts_Bps"
"""Not `watch_host_memory_Bps`, which landed before: that was of copies without pauses."""
UNITS = {
    STEP_TIME: "s",
    STEP_CPU: "s",
    CPU_SHARE: "1",
    MEMORY: "B/s",
    TO_SERVER: "B/s",
    FROM_SERVER: "B/s",
    GAUGE_US: "us",
    HOST_GFLOPS: "GFLOP/s",
    HOST_MEMORY: "B/s",
    "stolen_cpu_fraction": "1",
}
"""What each window has: seconds and processor seconds of a step, processor seconds of the node for
each second that it trains, bytes copied for each processor second, goodput in both directions. How
fast the host's processors and memory were meanwhile (where nodes are processes of this host: other
machines are judged as they are), and what was stolen from it."""
WARM_UP_S = 1.0
PATIENCE_S = 10.0
"""How long windows are measured again if they were disturbed."""
_OVERHEAD_S = 2.0
"""First guess of what a turn takes beside its seconds: two flows start and end."""

Window = Mapping[str, float]
"""Figures of one turn, by metric."""


def measure(
    cluster: Cluster,
    context: RunContext,
    *,
    turns: int,
    compute_s: float,
    memory_s: float,
    links_s: int,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Train, copy memory and send in turns.

    Args:
        cluster: a worker, and a server to exchange with.
        context: study and round.
        turns: how often each is measured.
        compute_s: seconds of steps in each turn.
        memory_s: seconds of copies.
        links_s: seconds of the flow in each direction, whole: iperf3 counts no others.
        progress: told what runs now.

    Returns:
        A run with table `sample`: every metric of `UNITS`, one row a turn.

    Raises:
        ProbeFailed: a program died, or iperf3 failed.
    """
    node, started_at = cluster.of_role("worker")[0], clock.now()
    patience = Patience(cluster.cpu_times, PATIENCE_S)
    memory_gauge = MemoryGauge(COPIED_BYTES) if cluster.here else None
    with host_lock(progress), WatchJob(cluster, node) as job:
        progress(f"probe watch: {node.group.node_type}, warm up")
        job.train(WARM_UP_S)
        windows = []
        for turn in range(1, turns + 1):
            progress(f"probe watch: {node.group.node_type}, turn {turn} of {turns}")
            begun_at = clock.now()
            trained = patience.measure_undisturbed(partial(_trained, job, compute_s))
            copied = patience.measure_undisturbed(partial(_copied, job, memory_s, memory_gauge))
            host = _host_speed(cluster, begun_at)
            flows = patience.measure_undisturbed(partial(_both_ways, cluster, node, links_s))
            stolen = fmean(piece.stolen for piece in (trained, copied, flows))
            metrics = {**trained.value, **copied.value, **flows.value, **host}
            windows.append({**metrics, "stolen_cpu_fraction": stolen})
    settings: dict[str, Setting] = {"worker": node.group.node_type, "turns": turns}
    run = finished_run("watch", cluster, None, context, started_at, settings)
    return ProbeResult(run, None, {"sample": samples(windows)})


def samples(windows: Sequence[Window]) -> pl.DataFrame:
    """Return table sample of the figures of each turn."""
    return pl.DataFrame(
        [
            (metric, UNITS[metric], window, value)
            for window, figures in enumerate(windows)
            for metric, value in figures.items()
        ],
        schema={"metric": pl.String, "unit": pl.String, "window": pl.Int16, "value": pl.Float64},
        orient="row",
    )


def _trained(job: WatchJob, seconds: float) -> Window:
    done = job.train(seconds)
    return {
        STEP_TIME: done.wall_s / done.times,
        STEP_CPU: done.cpu_s / done.times,
        CPU_SHARE: done.cpu_s / done.wall_s,
    }


def _copied(job: WatchJob, seconds: float, memory_gauge: MemoryGauge | None) -> Window:
    if memory_gauge is None:
        return {MEMORY: _speed_Bps(job.copy(seconds))}
    with memory_gauge.running():
        copied = job.copy(seconds)
    return {MEMORY: _speed_Bps(copied), HOST_MEMORY: memory_gauge.speed_Bps}


def _speed_Bps(copied: WorkTotals) -> float:
    return copied.times * COPIED_BYTES / copied.cpu_s


def _both_ways(cluster: Cluster, node: Node, seconds: float) -> Window:
    directions = {TO_SERVER: "uplink", FROM_SERVER: "downlink"}
    return {
        metric: links.received_goodput(links.simultaneous(cluster, [node], direction, seconds)[0])[
            "bandwidth_Bps"
        ]
        for metric, direction in directions.items()
    }


def _host_speed(cluster: Cluster, since: datetime) -> Window:
    """Return how fast the host was since then, as far as it is known."""
    known = {
        GAUGE_US: GAUGE.mean_us(since) if cluster.here else None,
        HOST_GFLOPS: cluster.host_gflops(since),
    }
    return {metric: value for metric, value in known.items() if value is not None}


class Settings(Record):
    """How many turns, and the seconds of each kind in each of them."""

    turns: Repeats = 5
    compute_s: Seconds = 2.5
    memory_s: Seconds = 1.0
    links_s: int = Field(default=1, ge=1, le=int(limits.SECONDS))


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each type of workers once on each speed of links that it trains on."""
    groups = {
        (group.node_type, scenario.link_mbps): group
        for scenario in requested.cluster
        for group in scenario.worker_groups
    }
    each_s = settings.compute_s + settings.memory_s + 2 * (settings.links_s + _OVERHEAD_S / 2)
    for (node_type, speed), group in groups.items():
        nodes = _pair(group)
        yield PlannedRun(
            Subject("watch", None, speed, {"worker": node_type}),
            "profile",
            f"probe watch, {link_in_words(speed)}, {node_type}",
            nodes,
            settings.model_dump(),
            expected_s=WARM_UP_S + settings.turns * each_s,
            start_s=start_s(nodes),
        )


def _pair(group: NodeGroup) -> tuple[NodeGroup, NodeGroup]:
    """Return a worker, and a node of its type that only exchanges with it.

    That one computes nothing, so it needs no share of its own: two of a type with a whole core each
    would be more than a host of two cores has.
    """
    worker = group.one.model_copy(update={"batch_size": None})
    free = {"role": "server", "cpu_share": None, "core_gflops": None, "memory_bytes": None}
    return worker, worker.model_copy(update=free)


PROBE = Probe(
    name="watch",
    what="Whether a node type's steps, memory and links are as fast as they were.",
    kind="pytorch",
    tables=("sample",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: measure),
)
