"""Probe `slowdown`: how much longer passes and all-reduces take if both go on in one program.

Where nodes compute on processors, both take time of the same share; on GPUs all-reduces take some
of the multiprocessors. The paper leaves it out. How much steps scatter that several nodes take at
the same time is seen here too: what a moment adds to the steps of all of them delays nobody.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import sqrt
from statistics import fmean, variance

import polars as pl
from pydantic import Field

from profilers.allreduce.probe import WARM_UPS, rank_times
from profilers.nodes.programs import STEP_TIMEOUT_S, Message, cluster_nodes
from profilers.nodes.torch_jobs import Ranks
from profilers.nodes.torch_network import TrainedNetwork
from profilers.nodes.torch_training import Step
from profilers.probe import (
    STEP_S,
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    one_by_one,
    plan_scenario,
)
from profilers.scenarios import is_all_reduce
from profilers.steady.host import Patience
from profilers.tables import sample_table
from warehouse import limits
from warehouse.fields import Batch
from warehouse.records import BadInput, ProbeFailed, Record, Scenario

BUCKET_BYTES = 25 * 2**20
"""What PyTorch's DistributedDataParallel sends at a time unless told otherwise."""
PIECE_STEPS = 10
"""Steps of each kind in a row; then it is the turn of the others: all share the host's moments."""

Together = Sequence[Sequence[float]]
"""Seconds of steps, [rank][step], each of which all ranks began at the same time."""


@dataclass(frozen=True)
class Times:
    """What counts, of all ranks: steps, and the seconds of all-reduces."""

    steps: list[Step] = field(default_factory=list)
    reduce_s: list[float] = field(default_factory=list)


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Train on every node without and with all-reduces, which go on over and over."""
    load, trials, cluster = need.scenario.workload, need.settings["trials"], session.cluster
    patience = Patience(cluster.cpu_times)
    alone, beside, together = Times(), Times(), list[Together]()
    workers = cluster.of_role("worker")
    session.say(f"start {load.dnn}: {len(workers)} worker(s) load PyTorch")
    network = TrainedNetwork.of(need.scenario, wrapped=False).model_dump(mode="json")
    program = "profilers.slowdown.program"
    with Ranks(cluster, need.scenario.label, workers, program, network=network) as ranks:
        ranks.connect(ranks.first(), 1)
        nodes = cluster_nodes(ranks.members(ranks.first()))
        pieces, count = -(-trials // PIECE_STEPS), min(PIECE_STEPS, trials)
        for piece in range(pieces):
            session.say(f"slowdown of {load.dnn}: {piece + 1} of {pieces}")
            several = partial(_train, ranks, load.batch_size, WARM_UPS + count)
            trained = patience.measure_undisturbed(several).value
            alone.steps.extend(step for steps in trained for step in steps[WARM_UPS:])
            at_once = partial(_train_at_once, ranks, load.batch_size, count)
            together.append(patience.measure_undisturbed(at_once).value)
            reduce = partial(_reduce, ranks, WARM_UPS + count)
            alone.reduce_s.extend(patience.measure_undisturbed(reduce).value)
            overlap = partial(_overlap, ranks, load.batch_size, WARM_UPS + count)
            both = patience.measure_undisturbed(overlap).value
            beside.steps.extend(both.steps)
            beside.reduce_s.extend(both.reduce_s)
    config = {
        "trials": trials,
        "warm_ups": WARM_UPS,
        "size_bytes": BUCKET_BYTES,
        "library": ranks.library,
        "stolen_cpu_fraction": round(patience.stolen, 4),
    }
    return Measured({"sample": samples(alone, beside, together), "cluster_node": nodes}, config)


def samples(alone: Times, beside: Times, together: Sequence[Together]) -> pl.DataFrame:
    """Return what each takes longer, as a part of its time alone, and `straggling_share`."""

    def longer(alone_s: Sequence[float], beside_s: Sequence[float]) -> float:
        return fmean(beside_s) / fmean(alone_s) - 1

    values = {
        "straggling_share": straggling_share(together),
        "forward_slowdown": longer(*([s.forward_s for s in t.steps] for t in (alone, beside))),
        "backward_slowdown": longer(*([s.backward_s for s in t.steps] for t in (alone, beside))),
        "allreduce_slowdown": longer(alone.reduce_s, beside.reduce_s),
    }
    return sample_table((metric, "1", None, value) for metric, value in values.items())


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


def _train(ranks: Ranks, batch_size: int, steps: int) -> list[list[Step]]:
    """Train on all ranks, one step behind the other; return the steps of each."""
    command = {"batch_size": batch_size, "steps": steps, "watched": False, "resting": False}
    return list(map(_steps, _ask(ranks, "trained", steps, do="train", **command)))


def _train_at_once(ranks: Ranks, batch_size: int, times: int) -> Together:
    """Train single steps, each of which all ranks begin together."""
    rounds = [[step.seconds for (step,) in _train(ranks, batch_size, 1)] for _ in range(times)]
    return list(zip(*rounds, strict=True))


def _reduce(ranks: Ranks, times: int) -> list[float]:
    """All-reduce on all ranks; leave out the warm-ups. Return the seconds of each."""
    command = {"size_bytes": BUCKET_BYTES, "concurrent": 1, "times": times}
    replies = _ask(ranks, "reduced", times, do="reduce", **command)
    return [rank_time.raw_seconds for rank_time in rank_times(replies)]


def _overlap(ranks: Ranks, batch_size: int, steps: int) -> Times:
    """Do both on all ranks; leave out steps that warm up, and the first all-reduce."""
    command = {"batch_size": batch_size, "steps": steps, "size_bytes": BUCKET_BYTES}
    replies = _ask(ranks, "overlapped", steps, do="overlap", **command)
    return Times(
        [step for reply in replies for step in _steps(reply)[WARM_UPS:]],
        [seconds for reply in replies for seconds in reply["reduce_s"][1:]],
    )


def _ask(ranks: Ranks, answer: str, each: int, **command: object) -> list[Message]:
    """Give all ranks a command, and time for so many steps or all-reduces."""
    return ranks.ask(ranks.first(), answer, STEP_TIMEOUT_S * each, **command)


def _steps(reply: Message) -> list[Step]:
    if reply["steps"] is None:
        raise ProbeFailed("the batch does not fit the nodes' memory; use a smaller one")
    return [Step(**fields) for fields in reply["steps"]]


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
        if workers < 2:
            raise BadInput(f"{whole.label}: expected two workers or more, found {workers}")
        run_settings = settings.model_dump(include={"trials"})
        yield plan_scenario("slowdown", whole, run_settings, 4 * settings.trials * STEP_S)


PROBE = Probe(
    name="slowdown",
    what="What passes take longer while all-reduces go on beside them.",
    kind="pytorch",
    tables=("sample", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
    concerns=lambda scenario: is_all_reduce(scenario, "pytorch"),
)
