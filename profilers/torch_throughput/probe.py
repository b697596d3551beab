"""Probe `torch_throughput`: how long iterations of synchronous training take, really trained.

PyTorch's DistributedDataParallel on all nodes of a scenario, or FullyShardedDataParallel of one
that is sharded, one rank per device; a single device trains without either. Iterations follow each
other in pieces, which are measured again if the host was disturbed; batches are drawn before.

Source: Srift, section 5.1: the mean of at least 100 iterations, without start-up and loading data.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from statistics import fmean
from typing import cast

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.allreduce.program import AllreduceRankConfig
from profilers.clusters import Cluster, Node
from profilers.nodes.programs import Programs
from profilers.nodes.torch_jobs import STEP_TIMEOUT_S, Ranks, check_trains
from profilers.nodes.torch_program import cluster_nodes, interleave_node_types
from profilers.probe import (
    STEP_TIME,
    PlannedRun,
    Probe,
    ProbeResult,
    RequestedScenarios,
    RunContext,
    Say,
    Setting,
    finished_run,
    plan_scenario_runs,
)
from profilers.scenarios import same_start, step_or_guess_s, trains_pytorch
from profilers.steady.host import MeasuredValue, Patience
from profilers.steady.hostlock import host_lock
from profilers.torch_compute.program import ComputeConfig
from profilers.torch_throughput.program import DDPConfig
from profilers.windows import PIECE_STEPS, Goal, Piece, half_width, step_rows
from warehouse import limits
from warehouse.fields import Seconds
from warehouse.records import BadInput, NodeGroup, Record, Scenario

WARM_UPS = 3
"""First iterations: PyTorch rebuilds its buckets after one, and oneDNN prepares its kernels."""
CONNECT_S = 6.0
"""First guess of what ranks take to find each other and to begin with like parameters."""
PATIENCE_S = 30.0
"""How long pieces of a scenario are measured again if they were disturbed."""

Batches = Mapping[Node, int]
"""The nodes of a scenario, and the batch of each of their devices."""


def measure(
    cluster: Cluster,
    scenarios: Sequence[Scenario],
    context: RunContext,
    *,
    goal: Goal,
    branches: bool = False,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[ProbeResult]:
    """Train scenarios of one network, on one start of its programs.

    They may differ in their nodes and batch sizes. NCCL reduces where every node has as many GPUs
    as ranks, otherwise Gloo.

    Args:
        cluster: at least as many workers of each kind as any of the scenarios has.
        scenarios: all-reduces or sharded ones with framework pytorch, or single devices.
        context: study and round.
        goal: when a scenario has been measured.
        branches: whether the network leaves out layers in some steps; DDP then looks for them.
        progress: told what runs now.

    Yields:
        One run per scenario as soon as it is measured, with tables `sample` (`step_time_s`,
        `idle_cpu_fraction` and `stolen_cpu_fraction` of each piece, as windows), `step` (of each
        rank) and `cluster_node`. Its config has `half_width`, of the 95 % confidence interval of
        the mean iteration, as part of it: scatter within this run only (`Goal`).

    Raises:
        ProbeFailed: the job failed.
        BadInput: another strategy or framework, several networks, or nodes the cluster lacks.
    """
    _check_family(scenarios)
    batches = {scenario: _batches(cluster, scenario) for scenario in scenarios}
    first = scenarios[0]
    with host_lock(progress), Programs(cluster, first.workload.dnn) as programs:
        used = {node for nodes in batches.values() for node in nodes}
        nodes = interleave_node_types([node for node in cluster.of_role("worker") if node in used])
        progress(f"start {first.workload.dnn}: {len(nodes)} worker(s) load PyTorch")
        config = partial(_config, cluster, first, branches)
        each = first.strategy.devices_per_node
        ranks = Ranks(cluster, programs, nodes, "profilers.torch_throughput.program", config, each)
        for scenario in scenarios:
            started_at = clock.now()
            progress(f"measure {scenario.label}")
            trained = _train(ranks, batches[scenario], goal)
            yield _result(cluster, scenario, context, started_at, trained)


@dataclass(frozen=True)
class _TimedPieces:
    """Pieces that count, what came before them, and who took part."""

    warm_up: Piece
    pieces: list[MeasuredValue[Piece]]
    discarded: int
    library: str
    cluster_node: pl.DataFrame

    @property
    def steps_s(self) -> list[float]:
        return [step_s for piece in self.pieces for step_s in piece.value.steps_s]


def _train(ranks: Ranks, batches: Batches, goal: Goal) -> _TimedPieces:
    names = ranks.on(batches)
    ranks.connect(names, 1)
    ranks.programs.ask(names, "replicated", STEP_TIMEOUT_S, do="replicate")
    attempts: list[Piece] = []

    def piece(steps: int) -> Piece:
        attempts.append(_piece(ranks, batches, steps))
        return attempts[-1]

    placed = cluster_nodes(ranks.members(names))
    trained = _TimedPieces(piece(WARM_UPS), [], 0, ranks.library, placed)
    patience, started_s = Patience(ranks.cluster.cpu_times, PATIENCE_S), time.monotonic()
    while not goal.reached(trained.steps_s, time.monotonic() - started_s):
        trained.pieces.append(patience.measure_undisturbed(partial(piece, 1 + PIECE_STEPS)))
    return replace(trained, discarded=len(attempts) - 1 - len(trained.pieces))


def _piece(ranks: Ranks, batches: Batches, steps: int) -> Piece:
    """Train steps on all ranks of a scenario together."""
    by_rank = {name: size for node, size in batches.items() for name in ranks.on([node])}
    for name, batch_size in by_rank.items():
        ranks.programs.tell(name, do="train", batch_size=batch_size, steps=steps)
    replies = ranks.programs.expect(by_rank, "trained", STEP_TIMEOUT_S * steps)
    return Piece(tuple(tuple(cast(list[int], replies[name]["times_us"])) for name in by_rank))


def _result(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    started_at: datetime,
    trained: _TimedPieces,
) -> ProbeResult:
    settings: dict[str, Setting] = {
        "iterations": len(trained.steps_s),
        "half_width": round(half_width(trained.steps_s), 5),
        "discarded_pieces": trained.discarded,
        "warm_ups": WARM_UPS,
        "library": None if scenario.strategy.kind == "single" else trained.library,
        "devices_per_node": scenario.strategy.devices_per_node,
    }
    run = finished_run("torch_throughput", cluster, scenario, context, started_at, settings)
    samples = [
        row
        for window, piece in enumerate(trained.pieces)
        for row in (
            ("step_time_s", "s", window, fmean(piece.value.steps_s)),
            ("idle_cpu_fraction", "1", window, piece.idle),
            ("stolen_cpu_fraction", "1", window, piece.stolen),
        )
    ]
    tables = {
        "sample": pl.DataFrame(samples, ["metric", "unit", "window", "value"], orient="row"),
        "step": step_rows(trained.warm_up, [piece.value for piece in trained.pieces]),
        "cluster_node": trained.cluster_node,
    }
    return ProbeResult(run, scenario, tables)


def _config(cluster: Cluster, scenario: Scenario, branches: bool, node: Node, device: int) -> str:
    rank = AllreduceRankConfig(cluster.interface, node.group.threads, device)
    compute = ComputeConfig.of(
        cluster.interface, scenario, node, replicated=True, branches=branches
    )
    return DDPConfig(rank, compute).to_json()


def _batches(cluster: Cluster, scenario: Scenario) -> Batches:
    """Return the cluster's nodes that a scenario uses, the first of each kind."""
    batches: dict[Node, int] = {}
    for group in scenario.nodes:
        free = [
            node
            for node in cluster.of_role("worker")
            if _kind(node.group) == _kind(group) and node not in batches
        ]
        if len(free) < group.count:
            raise BadInput(
                f"{scenario.label} needs {group.count} more node(s) of type {group.node_type!r}, "
                f"the cluster has {len(free)}; open a larger one"
            )
        batch_size = group.batch_size or scenario.workload.batch_size
        batches |= dict.fromkeys(free[: group.count], batch_size)
    return batches


def _kind(group: NodeGroup) -> NodeGroup:
    return group.model_copy(update={"count": 1, "batch_size": None})


def _check_family(scenarios: Sequence[Scenario]) -> None:
    if not scenarios:
        raise BadInput("torch_throughput: expected scenarios, found none; name some")
    first = scenarios[0]
    for scenario in scenarios:
        check_trains(scenario)
        if scenario.cross_traffic is not None:
            raise BadInput(f"{scenario.label}: no cross traffic can be sent without servers")
        same_batch = scenario.workload.model_copy(update={"batch_size": first.workload.batch_size})
        each = first.strategy.devices_per_node
        of_first = (first.workload, first.strategy.kind, each)
        if (same_batch, scenario.strategy.kind, scenario.strategy.devices_per_node) != of_first:
            raise BadInput(
                f"{scenario.label} and {first.label}: expected the same network, trained in the "
                "same way, and devices per node; measure them one after the other"
            )


class Settings(Record):
    """How many iterations of each scenario are measured: see `profilers.windows.Goal`."""

    iterations: int = Field(default=60, ge=20, le=limits.REPEATS)
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_s: Seconds | None = None


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    start = partial(same_start, any_batch=True)
    expected = partial(_expected_s, settings)
    return plan_scenario_runs("torch_throughput", requested, settings.model_dump(), expected, start)


def _expected_s(settings: Settings, scenario: Scenario) -> float:
    step_s = step_or_guess_s(scenario)
    steps = Goal(**settings.model_dump()).expected_steps(step_s)
    connect_s = CONNECT_S if scenario.strategy.kind != "single" else 0.0
    return connect_s + step_s * (WARM_UPS + steps * (1 + PIECE_STEPS) / PIECE_STEPS)


def _run(
    cluster: Cluster, needs: Sequence[PlannedRun], context: RunContext, say: Say
) -> Iterator[ProbeResult]:
    goal = Goal(**needs[0].settings)
    return measure(cluster, [need.scenario for need in needs], context, goal=goal, progress=say)


PROBE = Probe(
    name="torch_throughput",
    what="Seconds per iteration of DDP or FSDP on all nodes, or of one device alone.",
    kind="pytorch",
    tables=("sample", "step", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=_run,
    concerns=trains_pytorch,
    metric=STEP_TIME,
)
