"""Probe `torch_memory`: the largest batch of a PyTorch network that fits a node's memory.

Source: Srift, section 4.1. On a node without accelerator memory, the limit is that of its memory
control group; being killed by it means that the batch does not fit.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from profilers.nodes.programs import Message, ProgramKilled, cluster_nodes
from profilers.nodes.torch_jobs import ComputeJob
from profilers.probe import (
    Measured,
    PlannedRun,
    Probe,
    RequestedScenarios,
    Session,
    one_by_one,
    plan_scenario,
    start_s,
)
from profilers.scenarios import of_batch, trains_pytorch
from profilers.steady import host
from profilers.tables import sample_table
from warehouse.fields import Batch
from warehouse.records import Backend, BadInput, ProbeFailed, Record

STEPS = 2
"""The second one meets the parameters' gradients and the kernels' scratch space of the first."""


def _measure(session: Session, need: PlannedRun) -> Measured:
    """Find the largest batch, up to `most`, that trains on the first worker.

    Batches are tried in one program, and in a new one after each that was too large.

    Raises:
        ProbeFailed: not even one example fits, or the program died otherwise.
    """
    scenario, most = need.scenario, need.settings["most"]
    node = session.cluster.of_role("worker")[0]
    tried, jobs, ready = list[int](), list[ComputeJob](), dict[str, Message]()
    with ExitStack() as running:

        def fits(batch_size: int) -> bool:
            session.say(f"search largest batch of {scenario.workload.dnn}: {batch_size}")
            tried.append(batch_size)
            try:
                if not jobs:
                    job = ComputeJob(session.cluster, scenario, searching=True)
                    jobs.append(running.enter_context(job))
                    ready["said"] = job.ready
                if jobs[0].train(batch_size, STEPS) is not None:
                    return True
            except ProgramKilled:
                pass
            jobs.clear()
            running.close()
            return False

        largest = largest_that_fits(fits, most)
    if not largest:
        limit = node.group.memory_bytes
        memory = "the machine's memory" if limit is None else f"{limit / 2**20:.0f} MiB"
        raise ProbeFailed(
            f"{scenario.label}: not a single example fits {memory}; use a larger node"
        )
    tables = {
        "sample": sample_table([("largest_batch_size", "1", None, float(largest))]),
        "cluster_node": cluster_nodes({node: ready["said"]}),
    }
    return Measured(tables, {"most": most, "steps": STEPS, "attempts": len(tried)})


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


class Settings(Record):
    """The largest batch to try."""

    most: Batch = 256


def _needs(requested: RequestedScenarios, settings: Settings) -> Iterator[PlannedRun]:
    """Yield a search of each network on each node type: the batch of the scenario plays no part."""
    for scenario in dict.fromkeys(of_batch(one, settings.most) for one in requested.own):
        yield plan_scenario(
            "torch_memory",
            scenario,
            settings.model_dump(),
            start_s(scenario.nodes) * 2 * settings.most.bit_length(),
            verb="find the largest batch,",
            starts_programs=False,
        )


def _check(requested: RequestedScenarios, needs: Sequence[PlannedRun], backend: Backend) -> None:
    """Refuse nodes whose only limit is the memory of this host."""
    for group in (need.nodes[0] for need in needs):
        limited = backend == "emulated" and group.memory_bytes is not None
        if backend in ("emulated", "loopback") and not limited and not host.gpus():
            raise BadInput(
                f"node type {group.node_type!r} on backend {backend}: expected a memory limit "
                "that is enforced, found none, and the search would take all memory of this host; "
                "use emulated nodes of a type with memory_bytes"
            )


PROBE = Probe(
    name="torch_memory",
    what="The largest batch that fits one node of a type.",
    kind="pytorch",
    tables=("sample", "cluster_node"),
    settings=Settings,
    needs=_needs,
    run=one_by_one(_measure),
    concerns=trains_pytorch,
    essential=frozenset({"most"}),
    check=_check,
)
