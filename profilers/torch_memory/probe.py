"""Probe `torch_memory`: the largest batch of a PyTorch network that fits a node's memory.

Source: Srift, section 4.1. On a node without accelerator memory, the limit is that of its memory
control group; being killed by it means that the batch does not fit.
"""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Self

import polars as pl

from profilers import clock
from profilers.clusters import Cluster
from profilers.nodes.programs import ProgramKilled
from profilers.nodes.torch_jobs import ComputeJob, check_single
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
from profilers.scenarios import trains_pytorch
from profilers.steady import host
from profilers.steady.hostlock import host_lock
from warehouse.fields import Batch
from warehouse.records import Backend, BadInput, NodeGroup, ProbeFailed, Record, Scenario
from warehouse.requirements import Subject

STEPS = 2
"""The second one meets the parameters' gradients and the kernels' scratch space of the first."""


def search(
    cluster: Cluster,
    scenario: Scenario,
    context: RunContext,
    *,
    most: int,
    progress: Callable[[str], None] = lambda _: None,
) -> ProbeResult:
    """Find the largest batch, up to `most`, that trains on the first worker.

    Args:
        cluster: at least one worker; the first one trains.
        scenario: an all-reduce of one worker; its batch size plays no part.
        context: study and round.
        most: the largest batch to try.
        progress: told what runs now.

    Returns:
        A run with the sample `largest_batch_size` (examples, exact) and table `cluster_node`.

    Raises:
        ProbeFailed: not even one example fits, or the program died otherwise.
        BadInput: more than one worker, another framework, `most` below 1, or a node whose only
            limit is the memory of this host.
    """
    check_single(scenario)
    check_limited(cluster.backend, cluster.of_role("worker")[0].group)
    if most < 1:
        raise BadInput(f"most: expected 1 or more, found {most}")
    started_at = clock.now()
    with host_lock(progress), _Attempts(cluster, scenario, progress) as attempts:
        largest = largest_that_fits(attempts.fits, most)
    if not largest:
        raise ProbeFailed(
            f"{scenario.label}: not a single example fits {_memory(cluster)}; use a larger node"
        )
    settings: dict[str, Setting] = {"most": most, "steps": STEPS, "attempts": attempts.count}
    run = finished_run("torch_memory", cluster, scenario, context, started_at, settings)
    sample = pl.DataFrame(
        [{"metric": "largest_batch_size", "unit": "1", "window": None, "value": float(largest)}],
        schema_overrides={"window": pl.Int16},
    )
    return ProbeResult(run, scenario, {"sample": sample, "cluster_node": attempts.cluster_node})


def largest_that_fits(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest batch in 1..most that fits, 0 if none does.

    Doubled until one does not fit, then halved in between; whatever is smaller than a batch that
    fits is taken to fit.
    """
    fitting, failing = 0, most + 1
    trying = 1
    while failing - fitting > 1:
        if fits(trying):
            fitting = trying
            trying = min(2 * trying, most) if failing > most else (fitting + failing) // 2
        else:
            failing = trying
            trying = (fitting + failing) // 2
    return fitting


class _Attempts:
    """Tries batches in one program, and in a new one after each that was too large."""

    def __init__(
        self, cluster: Cluster, scenario: Scenario, progress: Callable[[str], None]
    ) -> None:
        self._cluster, self._scenario, self._progress = cluster, scenario, progress
        self._job: ComputeJob | None = None
        self.count = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def fits(self, batch_size: int) -> bool:
        """Tell whether a batch trains."""
        self._progress(f"search largest batch of {self._scenario.workload.dnn}: {batch_size}")
        self.count += 1
        try:
            if self._job is None:
                job = ComputeJob(self._cluster, self._scenario, searching=True)
                self._job = job.__enter__()
                self.cluster_node = job.cluster_node
            if self._job.train(batch_size, STEPS) is not None:
                return True
        except ProgramKilled:
            pass
        self._end()
        return False

    def _end(self) -> None:
        if self._job is not None:
            self._job.__exit__(None, None, None)
        self._job = None


def check_limited(backend: Backend, group: NodeGroup) -> None:
    """Refuse nodes whose only limit is the memory of this host.

    Raises:
        BadInput: naming the node type.
    """
    limited = backend == "emulated" and group.memory_bytes is not None
    if backend in ("emulated", "loopback") and not limited and not host.gpus():
        raise BadInput(
            f"node type {group.node_type!r} on backend {backend}: expected a memory limit "
            "that is enforced, found none, and the search would take all memory of this host; use "
            "emulated nodes of a type with memory_bytes"
        )


def _memory(cluster: Cluster) -> str:
    limit = cluster.of_role("worker")[0].group.memory_bytes
    return "the machine's memory" if limit is None else f"{limit / 2**20:.0f} MiB"


class Settings(Record):
    """The largest batch to try."""

    most: Batch = 256


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield a search of each network on each node type: the batch of the scenario plays no part."""
    searched: dict[Scenario, None] = {}
    for scenario in requested.own:
        load = scenario.workload.model_copy(update={"batch_size": settings.most})
        nodes = tuple(group.model_copy(update={"batch_size": None}) for group in scenario.nodes)
        searched[scenario.model_copy(update={"workload": load, "nodes": nodes})] = None
    for scenario in searched:
        yield PlannedRun(
            Subject("torch_memory", scenario, None),
            "profile",
            f"find the largest batch, {scenario.label}",
            scenario.nodes,
            settings.model_dump(),
            expected_s=start_s(scenario.nodes) * 2 * settings.most.bit_length(),
        )


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    for need in needs:
        check_limited(backend, need.nodes[0])


PROBE = Probe(
    name="torch_memory",
    what="The largest batch that fits one node of a type.",
    kind="pytorch",
    tables=("sample", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(lambda: search),
    concerns=trains_pytorch,
    essential=frozenset({"most"}),
    one_node=True,
    check=_check,
)
