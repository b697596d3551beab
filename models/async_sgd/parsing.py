"""What happens to a transfer after the link has sent it: its receiver parses it."""

from collections.abc import Mapping, Sequence

from models.async_sgd.graph import Graph, Resource


def with_parsed(
    graph: Graph,
    intervals: list[tuple[int, int]],
    transfers: Sequence[int],
    speed_Bps: Mapping[Resource, float],
    captured: Mapping[int, tuple[int, int]] | None = None,
) -> list[tuple[int, int]]:
    """Cut each transfer where its link had sent it and append its parsing.

    Captured packets tell what was sent when. For transfers without, a model of the link stands
    in: it sends one transfer at a time, in the order of their recorded starts. One whose record
    ends before the link can have sent it is left whole, with no parsing.

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
    free_us: dict[int, float] = {}
    for i in sorted(transfers, key=lambda i: intervals[i]):
        start_us, end_us = intervals[i]
        station = graph.station_of[i]
        seconds = graph.sizes_bytes[i] / speed_Bps[graph.resources[i]]
        idle_us = free_us.get(station, 0.0)
        sent_us = max(idle_us, start_us) + seconds * 1e6
        first_us, last_us = captured.get(i, (start_us, sent_us))
        free_us[station] = max(idle_us, last_us)
        cut[i] = max(min(first_us, end_us), start_us), max(min(round(last_us), end_us), start_us)
    return cut + [(cut[i][1], intervals[i][1]) for i in transfers]


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
