"""From the times of a traced step to the work that its operations are."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from models.async_sgd.graph import Graph, Resource
from models.async_sgd.sharing import share


def ready_us(graph: Graph, intervals: Sequence[tuple[int, int]]) -> list[int]:
    """Return when the inputs of each operation of a step were there; its start if it has none."""
    ready = [
        0 if count else start_us
        for count, (start_us, _) in zip(graph.predecessors, intervals, strict=True)
    ]
    for operation, targets in enumerate(graph.successors):
        for target in targets:
            ready[target] = max(ready[target], intervals[operation][1])
    return ready


def work_seconds(
    graph: Graph, intervals: Sequence[tuple[int, int]], cores: float, serial: bool
) -> Iterator[float]:
    """Yield each operation's seconds of work, 0 for transfers.

    An operation occupies its resource from the moment its inputs are there until it ends. What
    passes meanwhile is its own work, that of others or a stall; the worker's time is divided among
    the operations that occupy it as the simulation divides it, so that simulating a step whose
    transfers take as long as recorded gives its recorded times. A server is not shared.
    """
    ready = ready_us(graph, intervals)
    work_us = [0.0] * len(intervals)
    occupied = []
    for operation, (_, end_us) in enumerate(intervals):
        resource = graph.resources[operation]
        if resource is Resource.PS:
            work_us[operation] = max(end_us - ready[operation], 0)
        elif resource is Resource.WORKER and end_us > ready[operation]:
            occupied.append((ready[operation], end_us, operation))
    for operation, us in _divided(occupied, cores, serial):
        work_us[operation] += us
    return (us / 1e6 for us in work_us)


def _divided(
    occupied: list[tuple[int, int, int]], cores: float, serial: bool
) -> Iterator[tuple[int, float]]:
    """Yield (operation, us): a stretch of time goes to all that occupy it in equal shares.

    Where operations run one at a time it goes to the one that ends first.
    """
    moments = sorted({moment for start, end, _ in occupied for moment in (start, end)})
    waiting = sorted(occupied, reverse=True)
    active: list[tuple[int, int]] = []
    for now_us, until_us in pairwise(moments):
        while waiting and waiting[-1][0] == now_us:
            _, end_us, operation = waiting.pop()
            active.append((end_us, operation))
        active = [one for one in active if one[0] > now_us]
        if not active:
            continue
        served = [min(active)] if serial else active
        for _, operation in served:
            yield operation, (until_us - now_us) * share(cores, len(served), 1.0)
