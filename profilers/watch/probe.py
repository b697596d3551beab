"""Probe `watch`: in under a minute, whether nodes of a type are still as fast as they were.

Two nodes: on the first, steps of a small network and copies of memory; flows to and from the
second. The kinds take turns, so that a slow moment of the host hits all of them. Each turn is a
window, so that a run knows its own noise. `fleet.drift` compares runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.clusters import Cluster, Node
from profilers.links.probe import link_in_words, received_goodput, simultaneous
from profilers.nodes.programs import Message, NodeProgram
from profilers.nodes.torch_network import TrainedNetwork
from profilers.probe import Measured, PlannedRun, Probe, RequestedScenarios, Session, one_by_one
from profilers.steady.gauges import GAUGE, MemoryGauge
from profilers.steady.host import Patience
from profilers.tables import sample_table
from profilers.watch.program import COPIED_BYTES
from warehouse import limits
from warehouse.fields import Repeats, Seconds
from warehouse.records import NodeGroup, Record, TrainingWorkload
from warehouse.requirements import Subject

NETWORK = TrainedNetwork(
    workload=TrainingWorkload(dnn="small_cnn", framework="pytorch", image_size=24, batch_size=4)
)
"""What is trained."""
_TIMEOUT_S = 300.0

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


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Train, copy memory and send in turns; a row for every metric of `UNITS` and turn."""
    settings, cluster = Settings(**need.settings), session.cluster
    node = cluster.of_role("worker")[0]
    kind, patience = node.group.node_type, Patience(cluster.cpu_times, PATIENCE_S)
    memory_gauge = MemoryGauge(COPIED_BYTES) if cluster.here else None
    network = NETWORK.model_dump(mode="json")
    program = "profilers.watch.program"
    with NodeProgram(cluster, node, f"watch of {kind}", program, network=network) as job:
        session.say(f"probe watch: {kind}, warm up")
        _trained(job, WARM_UP_S)
        windows = []
        for turn in range(1, settings.turns + 1):
            session.say(f"probe watch: {kind}, turn {turn} of {settings.turns}")
            begun_at = clock.now()
            trained = patience.measure_undisturbed(partial(_trained, job, settings.compute_s))
            copied = patience.measure_undisturbed(
                partial(_copied, job, settings.memory_s, memory_gauge)
            )
            host = {
                GAUGE_US: GAUGE.mean_us(begun_at) if cluster.here else None,
                HOST_GFLOPS: cluster.host_gflops(begun_at),
            }
            flows = patience.measure_undisturbed(
                partial(_both_ways, cluster, node, settings.links_s)
            )
            known = {metric: value for metric, value in host.items() if value is not None}
            stolen = fmean(piece.stolen for piece in (trained, copied, flows))
            metrics = {**trained.value, **copied.value, **flows.value, **known}
            windows.append({**metrics, "stolen_cpu_fraction": stolen})
    return Measured({"sample": samples(windows)}, {**need.subject.config, "turns": settings.turns})


def samples(windows: Sequence[Window]) -> pl.DataFrame:
    """Return table sample of the figures of each turn."""
    return sample_table(
        (metric, UNITS[metric], window, value)
        for window, figures in enumerate(windows)
        for metric, value in figures.items()
    )


def _ask(job: NodeProgram, do: str, answer: str, seconds: float) -> Message:
    return job.answer(answer, _TIMEOUT_S + seconds, do=do, seconds=seconds)


def _trained(job: NodeProgram, seconds: float) -> Window:
    done = _ask(job, "train", "trained", seconds)
    return {
        STEP_TIME: done["wall_s"] / done["times"],
        STEP_CPU: done["cpu_s"] / done["times"],
        CPU_SHARE: done["cpu_s"] / done["wall_s"],
    }


def _copied(job: NodeProgram, seconds: float, memory_gauge: MemoryGauge | None) -> Window:
    def speed() -> Window:
        done = _ask(job, "copy", "copied", seconds)
        return {MEMORY: done["times"] * COPIED_BYTES / done["cpu_s"]}

    if memory_gauge is None:
        return speed()
    with memory_gauge.running():
        copied = speed()
    return {**copied, HOST_MEMORY: memory_gauge.speed_Bps}


def _both_ways(cluster: Cluster, node: Node, seconds: float) -> Window:
    directions = {TO_SERVER: "uplink", FROM_SERVER: "downlink"}
    return {
        metric: received_goodput(simultaneous(cluster, [node], direction, seconds)[0])[
            "bandwidth_Bps"
        ]
        for metric, direction in directions.items()
    }


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
        )


def _pair(group: NodeGroup) -> tuple[NodeGroup, NodeGroup]:
    """Return a worker, and a node of its type that only exchanges with it.

    That one computes nothing, so it needs no share of its own: two of a type with a whole core each
    would be more than a host of two cores has.
    """
    worker = group.bare
    free = {"role": "server", "cpu_share": None, "core_gflops": None, "memory_bytes": None}
    return worker, worker.model_copy(update=free)


PROBE = Probe(
    name="watch",
    what="Whether a node type's steps, memory and links are as fast as they were.",
    kind="pytorch",
    tables=("sample",),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
)
