"""Probe `torch_throughput`: how long iterations of synchronous training take, really trained.

PyTorch's DistributedDataParallel on all nodes of a scenario, or FullyShardedDataParallel of one
that is sharded, one rank per device; a single device trains without either. Iterations follow each
other in pieces, which are measured again if the host was disturbed; batches are drawn before.

Source: Srift, section 5.1: the mean of at least 100 iterations, without start-up and loading data.
"""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean

from pydantic import Field

from profilers.clusters import Cluster, Node
from profilers.nodes.programs import STEP_TIMEOUT_S, cluster_nodes
from profilers.nodes.torch_jobs import Ranks
from profilers.nodes.torch_network import TrainedNetwork
from profilers.probe import (
    STEP_TIME,
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    scenario_runs,
)
from profilers.scenarios import same_start, step_or_guess_s, trains_pytorch
from profilers.steady.host import MeasuredValue, Patience
from profilers.tables import StepRow, sample_table, step_table, window_rows
from profilers.windows import half_width
from warehouse import limits
from warehouse.fields import Seconds
from warehouse.records import Backend, BadInput, Record, Scenario

PIECE_STEPS = 10
"""Counted iterations of a piece; one before them, which all ranks start at once, does not count."""
LEAST_PIECES = 2
KNOWN_AFTER_S = 40.0
"""About how long iterations take until the interval of their mean is as narrow as studies ask for;
half of the iterations do, where these are short."""
WARM_UPS = 3
"""First iterations: PyTorch rebuilds its buckets after one, and oneDNN prepares its kernels."""
CONNECT_S = 6.0
"""First guess of what ranks take to find each other and to begin with like parameters."""
PATIENCE_S = 30.0
"""How long pieces of a scenario are measured again if they were disturbed."""

Batches = Mapping[Node, int]
"""The nodes of a scenario, and the batch of each of their devices."""


class Settings(Record):
    """When a scenario is measured: after `iterations`, or sooner.

    Sooner is once the 95 % confidence interval of their mean is within `interval` of it to both
    sides (0.02: 2 %), or after `most_s` seconds; None: never.

    The interval is the scatter within one visit only, and counts iterations as independent, though
    they share slow minutes of the host. It does not say how far the mean of another visit may be:
    that is the noise floor (view report.noise).
    """

    iterations: int = Field(default=60, ge=20, le=limits.REPEATS)
    interval: float | None = Field(default=None, gt=0, lt=1, allow_inf_nan=False)
    most_s: Seconds | None = None

    def are_reached(self, steps_s: Sequence[float], passed_s: float) -> bool:
        """Tell whether that is so after these iterations; two pieces are always measured."""
        if len(steps_s) < LEAST_PIECES * PIECE_STEPS:
            return False
        if len(steps_s) >= self.iterations or passed_s >= (self.most_s or math.inf):
            return True
        return self.interval is not None and half_width(steps_s) <= self.interval

    def expected_steps(self, step_s: float) -> int:
        """Return about how many iterations of so many seconds are counted, in whole pieces."""
        wanted = float(self.iterations)
        if self.interval is not None:
            wanted = min(wanted / 2, KNOWN_AFTER_S / step_s)
        if self.most_s is not None:
            wanted = min(wanted, self.most_s / step_s)
        return PIECE_STEPS * max(LEAST_PIECES, round(wanted / PIECE_STEPS))


Piece = Sequence[Sequence[int]]
"""Iterations that followed each other: when each rank's began, and when the last one ended.

[ranks][iterations + 1], microseconds of UTC; the first iteration does not count."""


def mean_steps_s(piece: Piece) -> list[float]:
    """Return the seconds of each counted iteration, the mean over ranks."""
    ranks = [
        [(end - start) / 1e6 for start, end in itertools.pairwise(times[1:])] for times in piece
    ]
    return [fmean(step) for step in zip(*ranks, strict=True)]


def _run(session: Session, needs: Sequence[PlannedRun]) -> Iterator[Measured]:
    """Train scenarios of one network; they may differ in their nodes and batch sizes."""
    cluster, settings = session.cluster, Settings(**needs[0].settings)
    batches = [_batches(cluster, need.scenario) for need in needs]
    used = {node for nodes in batches for node in nodes}
    first = needs[0].scenario
    nodes = [node for node in cluster.of_role("worker") if node in used]
    session.say(f"start {first.workload.dnn}: {len(nodes)} worker(s) load PyTorch")
    with Ranks(
        cluster,
        first.workload.dnn,
        nodes,
        "profilers.torch_throughput.program",
        first.strategy.devices_per_node,
        network=TrainedNetwork.of(first).model_dump(mode="json"),
    ) as ranks:
        for need, of_need in zip(needs, batches, strict=True):
            session.begin(f"measure {need.scenario.label}")
            yield _measured(ranks, of_need, settings, need.scenario)


def _measured(ranks: Ranks, batches: Batches, settings: Settings, scenario: Scenario) -> Measured:
    names = ranks.on(batches)
    ranks.connect(names, 1)
    ranks.ask(names, "replicated", STEP_TIMEOUT_S, do="replicate")
    by_rank = {name: size for node, size in batches.items() for name in ranks.on([node])}
    attempts: list[Piece] = []

    def piece(steps: int) -> Piece:
        """Train steps on all ranks together."""
        for name, batch_size in by_rank.items():
            ranks.tell(name, do="train", batch_size=batch_size, steps=steps)
        replies = ranks.expect(by_rank, "trained", STEP_TIMEOUT_S * steps)
        attempts.append([replies[name]["times_us"] for name in by_rank])
        return attempts[-1]

    warm_up = piece(WARM_UPS)
    pieces: list[MeasuredValue[Piece]] = []
    steps_s: list[float] = []
    patience, started_s = Patience(ranks.cluster.cpu_times, PATIENCE_S), time.monotonic()
    while not settings.are_reached(steps_s, time.monotonic() - started_s):
        pieces.append(patience.measure_undisturbed(partial(piece, 1 + PIECE_STEPS)))
        steps_s += mean_steps_s(pieces[-1].value)
    counted = [(fmean(mean_steps_s(each.value)), each) for each in pieces]
    tables = {
        "sample": sample_table(window_rows(STEP_TIME, counted)),
        "step": step_table(step_rows(warm_up, [each.value for each in pieces])),
        "cluster_node": cluster_nodes(ranks.members(names)),
    }
    config = {
        "iterations": len(steps_s),
        "half_width": round(half_width(steps_s), 5),
        "discarded_pieces": len(attempts) - 1 - len(pieces),
        "warm_ups": WARM_UPS,
        "library": None if scenario.strategy.kind == "single" else ranks.library,
        "devices_per_node": scenario.strategy.devices_per_node,
    }
    return Measured(tables, config)


def step_rows(warm_up: Piece, pieces: Sequence[Piece]) -> Iterator[StepRow]:
    """Yield rows of table step; each piece is a window, and what does not count is in none."""
    counts = [0] * len(warm_up)
    for window, piece in enumerate([warm_up, *pieces], start=-1):
        for rank, times in enumerate(piece):
            for i, (start_us, end_us) in enumerate(itertools.pairwise(times)):
                inside = window if window >= 0 and i else None
                yield rank, counts[rank], inside, False, start_us, end_us
                counts[rank] += 1


def _batches(cluster: Cluster, scenario: Scenario) -> Batches:
    """Return the cluster's nodes that a scenario uses, the first of each kind."""
    batches: dict[Node, int] = {}
    for group in scenario.nodes:
        free = [
            node
            for node in cluster.of_role("worker")
            if node.group.bare == group.bare and node not in batches
        ]
        batch_size = group.batch_size or scenario.workload.batch_size
        batches |= dict.fromkeys(free[: group.count], batch_size)
    return batches


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    for scenario in (need.scenario for need in needs if need.scenario.strategy.casts_once):
        load, strategy = scenario.workload, scenario.strategy
        if strategy.is_divided or strategy.kind != "sharded":
            raise BadInput(
                f"{scenario.label}: whole replicas are measured, and sharded ones; leave out "
                f"{strategy.layout or strategy.kind}"
            )
        if load.precision == "float16" or load.memory_format != "contiguous":
            raise BadInput(
                f"{scenario.label}: sharded training is measured in float32 and bfloat16 of "
                "contiguous tensors"
            )


def _expected_s(settings: Settings, scenario: Scenario) -> float:
    step_s = step_or_guess_s(scenario)
    steps = settings.expected_steps(step_s)
    connect_s = CONNECT_S if scenario.strategy.kind != "single" else 0.0
    return connect_s + step_s * (WARM_UPS + steps * (1 + PIECE_STEPS) / PIECE_STEPS)


PROBE = Probe(
    name="torch_throughput",
    what="Seconds per iteration of DDP or FSDP on all nodes, or of one device alone.",
    kind="pytorch",
    tables=("sample", "step", "cluster_node"),
    settings=Settings,
    needs=scenario_runs("torch_throughput", _expected_s, partial(same_start, any_batch=True)),
    run=_run,
    concerns=trains_pytorch,
    metric=STEP_TIME,
    check=_check,
)
