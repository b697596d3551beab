"""Probe `slowdown`: how much longer passes and all-reduces take if both go on in one program.

Where nodes compute on processors, both take time of the same share; on GPUs all-reduces take some
of the multiprocessors. The paper leaves it out. How much steps scatter that several nodes take at
the same time is seen here too: what a moment adds to the steps of all of them delays nobody.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import sqrt
from statistics import fmean, variance
from typing import Any, cast

import polars as pl
from pydantic import Field

from profilers import clock
from profilers.allreduce.probe import WARM_UPS, rank_times
from profilers.allreduce.program import AllreduceRankConfig
from profilers.clusters import Cluster, Node
from profilers.nodes.programs import Message, Programs
from profilers.nodes.torch_jobs import STEP_TIMEOUT_S, Ranks, check_trains
from profilers.nodes.torch_program import cluster_nodes
from profilers.nodes.torch_training import Step
from profilers.probe import (
    STEP_S,
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
from profilers.scenarios import is_all_reduce
from profilers.slowdown.program import SlowdownConfig
from profilers.steady.host import Patience
from profilers.steady.hostlock import host_lock
from profilers.torch_compute.program import ComputeConfig
from warehouse import limits
from warehouse.fields import Batch
from warehouse.records import BadInput, ProbeFailed, Record, Scenario
from warehouse.requirements import Subject

BUCKET_BYTES = 25 * 2**20
"""What PyTorch's DistributedDataParallel sends at a time unless told otherwise."""
PIECE_STEPS = 10
"""Steps of each kind in a row; then it is the turn of the others: all share the host's moments."""


def measure(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    *,
    trials: int,
    size_bytes: int = BUCKET_BYTES,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Train on every node without and with all-reduces, and compare.

    Args:
        cluster: the workers of the scenario.
        scenario: an all-reduce of two workers or more; its batch size is trained.
        context: study and round.
        trials: steps of each kind that count on each node, at least; in pieces of `PIECE_STEPS`.
        size_bytes: the buffer that is reduced over and over.
        progress: told what runs now.

    Returns:
        A run with table `cluster_node` and samples `forward_slowdown`, `backward_slowdown` and
        `allreduce_slowdown`: what each takes longer, as a part of its time alone, over all ranks;
        and `straggling_share` (see `straggling_share`).

    Raises:
        ProbeFailed: the job failed.
        BadInput: a single worker, or another framework or strategy.
    """
    workers = cluster.of_role("worker")
    check_workers(scenario)
    if scenario.strategy.workers != len(workers):
        raise BadInput(
            f"{scenario.label}: expected a cluster of as many workers, found {len(workers)}"
        )
    started_at = clock.now()
    with host_lock(progress), Programs(cluster, scenario.label) as programs:
        progress(f"start {scenario.workload.dnn}: {len(workers)} worker(s) load PyTorch")
        config = partial(_config, cluster, scenario)
        ranks = Ranks(cluster, programs, workers, "profilers.slowdown.program", config)
        ranks.connect(list(ranks.facts), 1)
        measured = _MeasuredSteps(ranks, Patience(cluster.cpu_times), scenario, size_bytes)
        pieces = -(-trials // PIECE_STEPS)
        for piece in range(pieces):
            progress(f"slowdown of {scenario.workload.dnn}: {piece + 1} of {pieces}")
            measured.add(min(PIECE_STEPS, trials))
    settings: dict[str, Setting] = {
        "trials": trials,
        "warm_ups": WARM_UPS,
        "size_bytes": size_bytes,
        "library": ranks.library,
        "stolen_cpu_fraction": round(fmean(measured.stolen), 4),
    }
    run = finished_run("slowdown", cluster, scenario, context, started_at, settings)
    tables = {
        "sample": samples(measured.alone, measured.beside, measured.together),
        "cluster_node": cluster_nodes(ranks.members(list(ranks.facts))),
    }
    return ProbeResult(run, scenario, tables)


def check_workers(scenario: Scenario) -> None:
    """Refuse what is not PyTorch without servers on two workers or more.

    Raises:
        BadInput: naming what is wrong.
    """
    check_trains(scenario)
    if scenario.strategy.workers < 2:
        raise BadInput(
            f"{scenario.label}: expected two workers or more, that reduce while they train, found "
            f"{scenario.strategy.workers}"
        )


@dataclass(frozen=True)
class Times:
    """What counts, of all ranks: steps, and the seconds of all-reduces."""

    steps: list[Step] = field(default_factory=list)
    reduce_s: list[float] = field(default_factory=list)

    @property
    def forward_s(self) -> list[float]:
        """Return the seconds of each step's forward pass."""
        return [step.forward_s for step in self.steps]

    @property
    def backward_s(self) -> list[float]:
        """Return the seconds of each step's backward pass."""
        return [step.backward_s for step in self.steps]


Together = Sequence[Sequence[float]]
"""Seconds of steps, [rank][step], each of which all ranks began at the same time."""


@dataclass(frozen=True)
class _MeasuredSteps:
    """Steps and all-reduces so far, alone and beside each other."""

    ranks: Ranks
    patience: Patience
    scenario: Scenario
    size_bytes: int
    alone: Times = field(default_factory=Times)
    beside: Times = field(default_factory=Times)
    together: list[Together] = field(default_factory=list)
    stolen: list[float] = field(default_factory=list)

    def add(self, trials: int) -> None:
        """Measure so many steps and all-reduces more of each kind."""
        steps = WARM_UPS + trials
        command = {"batch_size": self.scenario.workload.batch_size, "steps": steps}
        trained = self.patience.measure_undisturbed(partial(_train, self.ranks, command))
        at_once = self.patience.measure_undisturbed(
            partial(_train_at_once, self.ranks, command, trials)
        )
        reduced = self.patience.measure_undisturbed(
            partial(_reduce, self.ranks, self.size_bytes, steps)
        )
        overlapped = self.patience.measure_undisturbed(
            partial(_overlap, self.ranks, command, self.size_bytes)
        )
        self.alone.steps.extend(trained.value)
        self.together.append(at_once.value)
        self.alone.reduce_s.extend(reduced.value)
        self.beside.steps.extend(overlapped.value.steps)
        self.beside.reduce_s.extend(overlapped.value.reduce_s)
        self.stolen.extend(piece.stolen for piece in (trained, at_once, reduced, overlapped))


def samples(alone: Times, beside: Times, together: Sequence[Together]) -> pl.DataFrame:
    """Return samples of the three slowdowns, and `straggling_share`."""
    values = {
        "straggling_share": straggling_share(together),
        "forward_slowdown": _longer(alone.forward_s, beside.forward_s),
        "backward_slowdown": _longer(alone.backward_s, beside.backward_s),
        "allreduce_slowdown": _longer(alone.reduce_s, beside.reduce_s),
    }
    return pl.DataFrame(
        [
            {"metric": metric, "unit": "1", "window": None, "value": value}
            for metric, value in values.items()
        ],
        schema_overrides={"window": pl.Int16},
    )


def straggling_share(together: Sequence[Together]) -> float:
    """Return how much of the scatter of steps is not that of all nodes at the same time.

    The standard deviation of steps that several nodes took at the same time, over that of
    successive steps of each; at most 1, and 1 where steps do not scatter.

    Args:
        together: pieces of steps, each of which all ranks began together.
    """
    at_once = [values for piece in together for values in zip(*piece, strict=True)]
    in_a_row = [pair for piece in together for row in piece for pair in pairwise(row)]
    successive = sum((value - before) ** 2 / 2 for before, value in in_a_row)
    if not successive:
        return 1.0
    return min(sqrt(fmean(map(variance, at_once)) * len(in_a_row) / successive), 1.0)


def _longer(alone_s: Sequence[float], beside_s: Sequence[float]) -> float:
    return fmean(beside_s) / fmean(alone_s) - 1


def _config(cluster: Cluster, scenario: Scenario, node: Node, device: int) -> str:
    rank = AllreduceRankConfig(cluster.interface, node.group.threads, device)
    return SlowdownConfig(rank, ComputeConfig.of(cluster.interface, scenario, node)).to_json()


def _train(ranks: Ranks, command: Mapping[str, int]) -> list[Step]:
    """Train on all ranks; leave out the warm-ups."""
    return [step for steps in _trained(ranks, command) for step in steps[WARM_UPS:]]


def _train_at_once(ranks: Ranks, command: Mapping[str, int], times: int) -> Together:
    """Train single steps, each of which all ranks begin together."""
    single = {**command, "steps": 1}
    rounds = [[step.seconds for (step,) in _trained(ranks, single)] for _ in range(times)]
    return list(zip(*rounds, strict=True))


def _trained(ranks: Ranks, command: Mapping[str, int]) -> list[list[Step]]:
    """Train on all ranks, one step behind the other; return the steps of each."""
    fields = {**command, "watched": False, "resting": False}
    return [
        _steps(reply) for reply in _ask(ranks, "trained", command["steps"], do="train", **fields)
    ]


def _reduce(ranks: Ranks, size_bytes: int, times: int) -> list[float]:
    """All-reduce on all ranks; leave out the warm-ups. Return the seconds of each."""
    fields = {"size_bytes": size_bytes, "concurrent": 1, "times": times}
    replies = _ask(ranks, "reduced", times, do="reduce", **fields)
    return [rank_time.raw_seconds for rank_time in rank_times(replies)]


def _overlap(ranks: Ranks, command: Mapping[str, int], size_bytes: int) -> Times:
    """Do both on all ranks; leave out steps that warm up, and the first all-reduce."""
    fields = {**command, "size_bytes": size_bytes}
    replies = _ask(ranks, "overlapped", command["steps"], do="overlap", **fields)
    steps = [step for reply in replies for step in _steps(reply)[WARM_UPS:]]
    reduce_s = [
        seconds for reply in replies for seconds in cast(list[float], reply["reduce_s"])[1:]
    ]
    return Times(steps, reduce_s)


def _ask(ranks: Ranks, answer: str, each: int, **command: object) -> list[Message]:
    """Give all ranks a command, and time for so many steps or all-reduces."""
    names = list(ranks.facts)
    replies = ranks.programs.ask(names, answer, STEP_TIMEOUT_S * each, **command)
    return [replies[name] for name in names]


def _steps(reply: Message) -> list[Step]:
    done = cast(Sequence[Mapping[str, Any]] | None, reply["steps"])
    if done is None:
        raise ProbeFailed("the batch does not fit the nodes' memory; use a smaller one")
    return [Step(**fields) for fields in done]


class Settings(Record):
    """Networks that train beside all-reduces (none: all), their batch, and how many steps.

    `batch_size` None: that of the first scenario of a network and node type.
    """

    networks: tuple[str, ...] = Field(default=(), max_length=limits.LISTED)
    batch_size: Batch | None = None
    trials: int = Field(default=60, ge=2, le=limits.REPEATS)


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield each network on each node type that trains it alone, with as many nodes as any has."""
    most: dict[str, int] = {}
    for scenario in requested.cluster:
        for group in scenario.worker_groups:
            most[group.node_type] = max(scenario.strategy.workers, most.get(group.node_type, 0))
    scenarios: dict[tuple[str, str], Scenario] = {}
    for scenario in requested.cluster:
        load, (group, *others) = scenario.workload, scenario.worker_groups
        wanted = not settings.networks or load.dnn in settings.networks
        if others or not wanted or settings.batch_size not in (None, load.batch_size):
            continue
        scenarios.setdefault((load.dnn, group.node_type), scenario)
    for (_, node_type), scenario in scenarios.items():
        workers = most[node_type]
        whole = scenario.model_copy(
            update={
                "strategy": scenario.strategy.model_copy(update={"workers": workers}),
                "nodes": (scenario.nodes[0].model_copy(update={"count": workers}),),
            }
        )
        check_workers(whole)
        yield PlannedRun(
            Subject("slowdown", whole, whole.link_mbps),
            "profile",
            f"profile {whole.label}",
            whole.nodes,
            settings.model_dump(include={"trials"}),
            expected_s=4 * settings.trials * STEP_S,
            start_s=start_s(whole.nodes),
        )


PROBE = Probe(
    name="slowdown",
    what="What passes take longer while all-reduces go on beside them.",
    kind="pytorch",
    tables=("sample", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: measure),
    concerns=lambda scenario: is_all_reduce(scenario, "pytorch"),
)
