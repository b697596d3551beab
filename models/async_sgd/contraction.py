"""Fewer operations, the same times: for simulations in which nothing needs to be recorded."""

from collections.abc import Sequence

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph


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
