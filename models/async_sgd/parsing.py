"""What happens to a transfer after the link has sent it: its receiver parses it."""

from collections.abc import Mapping, Sequence

from models.async_sgd.graph import Graph, Resource
from models.async_sgd.sharing import Flow, SharedResource


def with_parsed(
    graph: Graph,
    intervals: list[tuple[int, int]],
    transfers: Sequence[int],
    speed_Bps: Mapping[Resource, float],
    captured: Mapping[int, tuple[int, int]] | None = None,
) -> list[tuple[int, int]]:
    """Cut each transfer where its link had sent it and append its parsing.

    Captured packets tell what was sent when. For transfers without, a model of the link stands
    in: each server sends one transfer at a time, in the order of their recorded starts, and servers
    that send at the same time share the worker's link. A transfer whose record ends before the link
    can have sent it is left whole, with no parsing.

    Args:
        graph: the recorded graph, without parsing.
        intervals: recorded (start_us, end_us) of each of its operations.
        transfers: those that are transfers, in the order in which parsing is appended.
        speed_Bps: of each direction of the link.
        captured: time of the first and last packet (us) of the transfers that were captured.

    Source: Li et al., ICPE 2020, section 3.2.1.
    """
    captured = captured or {}
    cut = list(intervals)
    for resource in speed_Bps:
        mine = [i for i in transfers if graph.resources[i] is resource]
        alone_us = {i: graph.sizes_bytes[i] / speed_Bps[resource] * 1e6 for i in mine}
        sent_us = _sent_us(graph, intervals, alone_us, captured)
        for i in mine:
            start_us, end_us = intervals[i]
            first_us, last_us = captured[i] if i in captured else (start_us, round(sent_us[i]))
            cut[i] = max(min(first_us, end_us), start_us), max(min(last_us, end_us), start_us)
    return cut + [(cut[i][1], intervals[i][1]) for i in transfers]


def _sent_us(
    graph: Graph,
    intervals: Sequence[tuple[int, int]],
    alone_us: Mapping[int, float],
    captured: Mapping[int, tuple[int, int]],
) -> dict[int, float]:
    """Return when one direction has sent each transfer that was not captured.

    `alone_us` is how long each takes that has the link for itself.
    """
    link = SharedResource(1.0, 1.0)
    waiting: dict[int, list[int]] = {}
    for i in reversed(sorted(alone_us, key=intervals.__getitem__)):
        waiting.setdefault(graph.servers[i], []).append(i)
    free_us = dict.fromkeys(waiting, 0.0)
    busy: set[int] = set()
    sent_us: dict[int, float] = {}
    while waiting or busy:
        starts = [
            (max(free_us[server], intervals[queue[-1]][0]), server)
            for server, queue in waiting.items()
            if server not in busy
        ]
        ends = link.next_finish()
        if ends and (not starts or ends[0] <= min(starts)[0]):
            now_us, (server, _, i) = ends
            link.finish(now_us)
            busy.remove(server)
            sent_us[i] = free_us[server] = now_us
            continue
        now_us, server = min(starts)
        i = waiting[server].pop()
        if not waiting[server]:
            del waiting[server]
        if i in captured:
            free_us[server] = max(free_us[server], captured[i][1])
        else:
            busy.add(server)
            link.start(now_us, Flow(server, 0, i), alone_us[i])
    return sent_us


def with_parsing(graph: Graph, parsed: Sequence[int]) -> Graph:
    """Put a computation at the receiver between each of these transfers and what waits for it.

    It is named after its transfer, `<name>/parsing`; they are appended in the order of `parsed`.
    """
    count = len(graph.names)
    successors = list(graph.successors)
    for index, transfer in enumerate(parsed):
        successors[transfer] = (count + index,)
    receiver = {Resource.DOWNLINK: Resource.WORKER, Resource.UPLINK: Resource.PS}
    return Graph(
        names=(*graph.names, *(f"{graph.names[i]}/parsing" for i in parsed)),
        resources=(*graph.resources, *(receiver[graph.resources[i]] for i in parsed)),
        servers=(*graph.servers, *(graph.servers[i] for i in parsed)),
        sizes_bytes=(*graph.sizes_bytes, *(0 for _ in parsed)),
        successors=(*successors, *(graph.successors[i] for i in parsed)),
    )
