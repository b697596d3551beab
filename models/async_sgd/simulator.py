"""Synthetic traces of asynchronous SGD with any number of workers (Algorithm 3.1), compiled.

Source: Li et al., "Throughput Prediction of Asynchronous SGD in TensorFlow", ICPE 2020, section
3.4; lab/async_sgd.md names the four faults of the printed algorithm that are mended here. The
same in plain Python, to be read, is the oracle of the tests (tests/models/async_sgd/oracle).
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import SimulationOptions, Workers, check


def simulate(graph: StepGraph, steps: Sequence[ProfiledStep], options: SimulationOptions) -> Trace:
    """Run the discrete-event simulation; equal arguments give equal traces.

    Steps are sampled with replacement from `steps`. Simultaneous events are handled by worker,
    resource, operation. The first call on a machine compiles the kernel, which is kept on disk.

    Raises:
        BadInput: no steps, or steps, ranks or servers that do not fit the graph.
    """
    return simulate_together([Workers(graph, steps, options)])


def simulate_together(groups: Sequence[Workers]) -> Trace:
    """Run the simulation of groups of workers that differ, on the same servers.

    Raises:
        BadInput: as `simulate`, or options that the groups need to agree in.
    """
    from models.async_sgd.kernel.layout import lay_out, trace_of
    from models.async_sgd.kernel.loop import generate_trace

    check(groups)
    job, state = lay_out(groups)
    generate_trace(job, state)
    return trace_of(groups, job, state)


def simulate_all(simulations: Iterable[Sequence[Workers]]) -> list[Trace]:
    """Run simulations on all cores, in threads: the kernel does without Python's lock.

    Raises:
        BadInput: as `simulate_together`.
    """
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(simulate_together, simulations))


# Fewer operations, the same times: for simulations in which nothing needs to be recorded.


def contract(
    graph: StepGraph, steps: Sequence[ProfiledStep], inter_op_threads: int
) -> tuple[StepGraph, list[ProfiledStep]]:
    """Merge chains of computations in which nothing else waits for the links.

    A computation is merged with the one before it if that is all it waits for, nothing else waits
    for that, both use the same processor, and nothing queues there: on a server, and on a worker
    with several threads. What is done in between is the same, as sharing is equal: nobody else can
    tell that one ends and the next starts. Ranks of transfers (`Options.ranks`) do not fit the
    merged graph.

    Times change by rounding, and events that coincide may change order. That is enough to make
    workers fall into another step after a while, as another seed would.
    """
    graph = transitive_reduction(graph)
    queues = {Resource.DOWNLINK, Resource.UPLINK}
    if inter_op_threads == 1:
        queues.add(Resource.WORKER)
    head = list(range(len(graph.names)))
    tail = list(head)
    for operation in graph.topological:
        targets = graph.successors[operation]
        if len(targets) != 1 or graph.resources[operation] in queues:
            continue
        (target,) = targets
        if (
            graph.predecessors[target] == 1
            and graph.station_of[target] == graph.station_of[operation]
        ):
            head[target] = head[operation]
            tail[head[operation]] = target
    return _merged(graph, head, tail), [_merged_step(step, head) for step in steps]


def transitive_reduction(graph: StepGraph) -> StepGraph:
    """Return the graph without edges between operations that are also linked by a longer path."""
    beyond = [0] * len(graph.names)
    successors: list[tuple[int, ...]] = [()] * len(graph.names)
    for operation in reversed(graph.topological):
        targets = graph.successors[operation]
        implied = 0
        for target in targets:
            implied |= beyond[target]
        successors[operation] = tuple(i for i in dict.fromkeys(targets) if not implied >> i & 1)
        beyond[operation] = implied | sum(1 << target for target in set(targets))
    return StepGraph(
        graph.names, graph.resources, graph.servers, graph.sizes_bytes, tuple(successors)
    )


def _merged(graph: StepGraph, head: Sequence[int], tail: Sequence[int]) -> StepGraph:
    heads = [i for i, first in enumerate(head) if i == first]
    place = {operation: index for index, operation in enumerate(heads)}
    return StepGraph(
        names=tuple(graph.names[i] for i in heads),
        resources=tuple(graph.resources[i] for i in heads),
        servers=tuple(graph.servers[i] for i in heads),
        sizes_bytes=tuple(graph.sizes_bytes[i] for i in heads),
        successors=tuple(tuple(place[j] for j in graph.successors[tail[i]]) for i in heads),
    )


def _merged_step(step: ProfiledStep, head: Sequence[int]) -> ProfiledStep:
    seconds = [0.0] * len(head)
    for operation, first in enumerate(head):
        seconds[first] += step.seconds[operation]
    heads = [i for i, first in enumerate(head) if i == first]
    place = {operation: index for index, operation in enumerate(heads)}
    return ProfiledStep(
        seconds=tuple(seconds[i] for i in heads),
        order=tuple(place[i] for i in step.order if i in place),
        release_s=tuple(step.release_s[i] for i in heads),
    )
