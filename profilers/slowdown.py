"""Probe `slowdown`: how much longer passes take while an all-reduce goes on in the same program.

Where nodes compute on processors, all-reduces take time of the share that computes; on GPUs they
take some of its multiprocessors. The paper leaves it out.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from statistics import fmean
from typing import Any, cast

import polars as pl

from profilers.allreduce_node import RankConfig
from profilers.clusters import Cluster, Node
from profilers.compute_job import STEP_TIMEOUT_S, check_all_reduce
from profilers.compute_node import ComputeConfig
from profilers.hostlock import host_lock
from profilers.programs import Message, Programs
from profilers.quiet import Patience
from profilers.ranks import Ranks
from profilers.result import ProbeResult, RunContext, Setting, failed, finished_run
from profilers.slowdown_node import SlowdownConfig
from profilers.torch_nodes import cluster_nodes
from profilers.torch_training import Step
from warehouse.records import BadInput, ProbeFailed, Scenario

WARM_UPS = 3
BUCKET_BYTES = 25 * 2**20
"""What PyTorch's DistributedDataParallel sends at a time unless told otherwise."""


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
        trials: steps of each kind that count on each node.
        size_bytes: the buffer that is reduced over and over.
        progress: told what runs now.

    Returns:
        A run with table `cluster_node` and samples `forward_slowdown` and `backward_slowdown`: what
        a pass takes longer, as a part of its time alone, over all ranks. A failed run if the job
        failed.

    Raises:
        BadInput: a single worker, or another framework or strategy.
    """
    check_all_reduce(scenario)
    workers = cluster.of_role("worker")
    if not 2 <= scenario.strategy.workers == len(workers):
        raise BadInput(
            f"{scenario.label}: expected two workers or more, as many as the cluster has, found "
            f"{scenario.strategy.workers} and {len(workers)}"
        )
    started_at = datetime.now(UTC)
    try:
        with host_lock(progress), Programs(cluster, scenario.label) as programs:
            progress(f"start {scenario.workload.dnn}: {len(workers)} worker(s) load PyTorch")
            config = partial(_config, cluster, scenario)
            ranks = Ranks(cluster, programs, workers, "profilers.slowdown_node", config)
            ranks.connect(list(ranks.facts), 1)
            patience = Patience()
            train = partial(_train, ranks, scenario.workload.batch_size, WARM_UPS + trials)
            progress(f"slowdown of {scenario.workload.dnn}: alone")
            alone = patience.quietly(train)
            progress(f"slowdown of {scenario.workload.dnn}: beside all-reduces")
            beside = patience.quietly(partial(train, size_bytes))
    except ProbeFailed as error:
        return failed("slowdown", cluster, scenario, context, started_at, error)
    settings: dict[str, Setting] = {
        "trials": trials,
        "warm_ups": WARM_UPS,
        "size_bytes": size_bytes,
        "library": ranks.library,
        "stolen_cpu_fraction": round((alone.stolen + beside.stolen) / 2, 4),
    }
    run = finished_run("slowdown", cluster, scenario, context, started_at, settings)
    tables = {
        "sample": slowdowns(alone.value, beside.value),
        "cluster_node": cluster_nodes(ranks.members(list(ranks.facts))),
    }
    return ProbeResult(run, scenario, tables)


def slowdowns(alone: Sequence[Step], beside: Sequence[Step]) -> pl.DataFrame:
    """Return samples `forward_slowdown` and `backward_slowdown` of steps of both kinds."""
    values = {
        "forward_slowdown": _longer([s.forward_s for s in alone], [s.forward_s for s in beside]),
        "backward_slowdown": _longer([s.backward_s for s in alone], [s.backward_s for s in beside]),
    }
    return pl.DataFrame(
        [
            {"metric": metric, "unit": "1", "window": None, "value": value}
            for metric, value in values.items()
        ],
        schema_overrides={"window": pl.Int16},
    )


def _longer(alone_s: Sequence[float], beside_s: Sequence[float]) -> float:
    return fmean(beside_s) / fmean(alone_s) - 1


def _config(cluster: Cluster, scenario: Scenario, node: Node, device: int) -> str:
    rank = RankConfig(cluster.interface, node.group.threads, device)
    return SlowdownConfig(rank, ComputeConfig.of(cluster.interface, scenario, node)).to_json()


def _train(ranks: Ranks, batch_size: int, steps: int, size_bytes: int | None = None) -> list[Step]:
    """Train steps on all ranks, beside all-reduces of `size_bytes`; leave out the warm-ups."""
    names = list(ranks.facts)
    command: dict[str, object] = {"batch_size": batch_size, "steps": steps}
    timeout_s = STEP_TIMEOUT_S * steps
    if size_bytes is None:
        command["watched"] = False
        replies = ranks.programs.ask(names, "trained", timeout_s, do="train", **command)
    else:
        command["size_bytes"] = size_bytes
        replies = ranks.programs.ask(names, "overlapped", timeout_s, do="overlap", **command)
    return [step for name in names for step in _steps(replies[name])[WARM_UPS:]]


def _steps(reply: Message) -> list[Step]:
    done = cast(Sequence[Mapping[str, Any]] | None, reply["steps"])
    if done is None:
        raise ProbeFailed("the batch does not fit the nodes' memory; use a smaller one")
    return [Step(**fields) for fields in done]
