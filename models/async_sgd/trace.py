"""From the frames of a traced single-worker run to the graph and the steps that are simulated."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.link_sharing import Flow, SharedResource, share
from models.async_sgd.overhead import captured_us
from models.system import Tables
from networks.variables import tic
from warehouse.records import BadInput

_RESOURCES = {resource.name.lower(): resource for resource in Resource}


@dataclass(frozen=True)
class Profile:
    """A job as the simulator needs it.

    `requested` lists the transfers in the order in which, over all steps, they were ready.
    """

    graph: StepGraph
    steps: tuple[ProfiledStep, ...]
    requested: tuple[int, ...]


def read_profile(
    tables: Tables,
    streams: pl.DataFrame | None = None,
    *,
    downlink_Bps: float,
    uplink_Bps: float,
    inter_op_threads: int = 1,
    cores: float = 1.0,
) -> Profile:
    """Turn operation, edge, timing and step of one traced run into a graph and profiled steps.

    A transfer is recorded from the moment its tensor is ready until the receiver has parsed it. It
    becomes bytes on the link, and a computation at the receiver (its parsing) from the moment the
    link had sent it until its recorded end: as table `stream` says or, where that lacks it, as a
    model of the link at the given speeds says.

    An operation that no step times (TensorFlow leaves out `_Send`) counts as started, and ended,
    when the first operation that waits for it was started. A step in which the tracer lost the
    record of an operation is left out.

    Raises:
        BadInput: tables that do not fit together (they may be a stranger's), a cycle, or more than
            half of the traced steps incomplete.

    Source: Li et al., ICPE 2020, sections 2, 3.2.1 and 3.4.
    """
    if not (downlink_Bps > 0 and uplink_Bps > 0):
        raise BadInput(
            f"link speeds must be above 0, found {downlink_Bps} bytes/s down and {uplink_Bps} up; "
            "run the links probe again"
        )
    _check_recorded(tables)
    recorded = _recorded_graph(tables["operation"], tables["edge"])
    transfers = [i for i, resource in enumerate(recorded.resources) if resource.is_link]
    speed_Bps = {Resource.DOWNLINK: downlink_Bps, Resource.UPLINK: uplink_Bps}
    captured = captured_us(streams, tables["step"])
    graph = with_parsing(recorded, transfers)
    profiled = []
    requested_us = dict.fromkeys(transfers, 0)
    for step, whole in _recorded_steps(recorded, tables["timing"], tables["step"]):
        intervals = with_parsed(recorded, whole, transfers, speed_Bps, captured.get(step))
        starts_us = [start_us for start_us, _ in intervals]
        order = tuple(sorted(range(len(starts_us)), key=starts_us.__getitem__))
        release_s = tuple(
            0.0 if waits else max(start_us, 0) / 1e6
            for waits, start_us in zip(graph.predecessors, starts_us, strict=True)
        )
        work_s = tuple(work_seconds(graph, intervals, cores, inter_op_threads == 1))
        profiled.append(ProfiledStep(work_s, order, release_s))
        for i in transfers:
            requested_us[i] += starts_us[i]
    return Profile(
        graph=graph,
        steps=tuple(profiled),
        requested=tuple(sorted(transfers, key=requested_us.__getitem__)),
    )


def _check_recorded(tables: Tables) -> None:
    """Refuse tables that do not fit together: what a stranger landed was checked row by row."""
    last = tables["operation"].height - 1
    traced = tables["step"].filter("traced")["step"].to_list()
    size, resource = pl.col("size_bytes"), pl.col("resource")
    is_link = resource.is_in(["downlink", "uplink"])
    for name, is_good, expected in (
        ("operation", pl.col("operation") == pl.int_range(pl.len()), f"0 to {last}, each once"),
        ("operation", resource.is_in(list(_RESOURCES)), f"one of {', '.join(_RESOURCES)}"),
        ("operation", (size >= 0).fill_null(~is_link), "size_bytes of 0 or more"),
        ("edge", pl.col("source").is_between(0, last), f"operations 0 to {last}"),
        ("edge", pl.col("target").is_between(0, last), f"operations 0 to {last}"),
        ("timing", pl.col("step").is_in(traced), "a traced step of table step"),
        ("timing", pl.col("operation").is_between(0, last), f"operations 0 to {last}"),
        ("timing", pl.col("start_us").is_not_null(), "a start"),
        ("timing", pl.col("duration_us") >= 0, "a duration of 0 or more"),
    ):
        rows = tables[name].sort("operation") if name == "operation" else tables[name]
        bad = rows.filter(~is_good.fill_null(False))
        if not bad.is_empty():
            row = ", ".join(f"{key} {value}" for key, value in bad.row(0, named=True).items())
            raise BadInput(f"table {name}: expected {expected}, found {row}; profile again")


def _recorded_graph(operations: pl.DataFrame, edges: pl.DataFrame) -> StepGraph:
    rows = operations.sort("operation")
    successors: list[list[int]] = [[] for _ in range(rows.height)]
    for source, target in edges.select("source", "target").unique().sort(pl.all()).iter_rows():
        successors[source].append(target)
    return StepGraph(
        names=tuple(rows["name"]),
        resources=tuple(_RESOURCES[resource] for resource in rows["resource"]),
        servers=tuple(rows["server"].fill_null(0)),
        sizes_bytes=tuple(rows["size_bytes"].fill_null(0)),
        successors=tuple(map(tuple, successors)),
    )


def _recorded_steps(
    graph: StepGraph, timings: pl.DataFrame, steps: pl.DataFrame
) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each whole traced step and its (start_us, end_us) of every operation."""
    traced = steps.filter("traced")["step"].unique().sort().to_list()
    by_step = timings.sort("operation").partition_by("step", as_dict=True)
    timed = timings["operation"].unique().sort().to_list()
    whole = [
        step
        for step in traced
        if (step,) in by_step and by_step[(step,)]["operation"].to_list() == timed
    ]
    if not timed or not whole or len(whole) * 2 < len(traced):
        raise BadInput(
            f"table timing: {len(traced) - len(whole)} of {len(traced)} traced steps lack some of "
            f"the {len(timed)} timed operations or time one twice; profile again"
        )
    for step in whole:
        columns = by_step[(step,)].select(
            "start_us", end_us=pl.col("start_us") + pl.col("duration_us")
        )
        recorded = dict(zip(timed, columns.iter_rows(), strict=True))
        last_us = max(end_us for _, end_us in recorded.values())
        intervals = [(last_us, last_us)] * len(graph.names)
        for operation in reversed(graph.topological):
            starts_us = [intervals[target][0] for target in graph.successors[operation]]
            start_us = min(starts_us, default=last_us)
            intervals[operation] = recorded.get(operation, (start_us, start_us))
        yield step, intervals


# What happens to a transfer after the link has sent it: its receiver parses it.


def with_parsed(
    graph: StepGraph,
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
        link_transfers = [i for i in transfers if graph.resources[i] is resource]
        alone_us = {i: graph.sizes_bytes[i] / speed_Bps[resource] * 1e6 for i in link_transfers}
        sent_us = _sent_us(graph, intervals, alone_us, captured)
        for i in link_transfers:
            start_us, end_us = intervals[i]
            first_us, last_us = captured[i] if i in captured else (start_us, round(sent_us[i]))
            cut[i] = max(min(first_us, end_us), start_us), max(min(last_us, end_us), start_us)
    return cut + [(cut[i][1], intervals[i][1]) for i in transfers]


def _sent_us(
    graph: StepGraph,
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


def with_parsing(graph: StepGraph, parsed: Sequence[int]) -> StepGraph:
    """Put a computation at the receiver between each of these transfers and what waits for it.

    It is named after its transfer, `<name>/parsing`; they are appended in the order of `parsed`.
    """
    count = len(graph.names)
    successors = list(graph.successors)
    for index, transfer in enumerate(parsed):
        successors[transfer] = (count + index,)
    receiver = {Resource.DOWNLINK: Resource.WORKER, Resource.UPLINK: Resource.PS}
    return StepGraph(
        names=(*graph.names, *(f"{graph.names[i]}/parsing" for i in parsed)),
        resources=(*graph.resources, *(receiver[graph.resources[i]] for i in parsed)),
        servers=(*graph.servers, *(graph.servers[i] for i in parsed)),
        sizes_bytes=(*graph.sizes_bytes, *(0 for _ in parsed)),
        successors=(*successors, *(graph.successors[i] for i in parsed)),
    )


# From the times of a traced step to the work that its operations are.


def ready_us(graph: StepGraph, intervals: Sequence[tuple[int, int]]) -> list[int]:
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
    graph: StepGraph, intervals: Sequence[tuple[int, int]], cores: float, serial: bool
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
        active = [running for running in active if running[0] > now_us]
        if not active:
            continue
        served = [min(active)] if serial else active
        for _, operation in served:
            yield operation, (until_us - now_us) * share(cores, len(served), 1.0)


# The order in which a worker's transfers can be made to use a link, as ranks of operations.


def transfer_ranks(profile: Profile) -> tuple[int, ...]:
    """Return the rank of every operation where TIC orders transfers.

    Only what the worker receives is ordered: all of it can be sent when a step starts. Gradients
    have equal ranks and go as they come.

    Source: Li et al., ICPE 2020, section 4.2 (figures 18 and 19).
    """
    graph = profile.graph
    received = [i for i in profile.requested if graph.resources[i] is Resource.DOWNLINK]
    predecessors: list[list[int]] = [[] for _ in graph.names]
    for operation, targets in enumerate(graph.successors):
        for target in targets:
            predecessors[target].append(operation)
    ranks = [0] * len(graph.names)
    for rank, operation in enumerate(tic(predecessors, received)):
        ranks[operation] = rank
    return tuple(ranks)
