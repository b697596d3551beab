"""From groups of workers and their operations to the kernel's arrays, and back to a trace."""

from collections.abc import Hashable, Sequence
from itertools import chain
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.kernel.rows import (
    SharedRows,
    opposed_of,
    row_records,
    rows_of,
    servers_of,
    shares_of,
    speeds_of,
)
from models.async_sgd.kernel.state import (
    NOTHING,
    OPERATION_BITS,
    OPERATION_MASK,
    STATION_MASK,
    STATION_OFFSET,
    Floats,
    Ints,
    LaneFields,
    NextEventFields,
    OperationFields,
    Shorts,
    SimulationJob,
    SimulationState,
    TimingFields,
    WorkerFields,
)
from models.async_sgd.synthetic_trace import Interval, Trace
from models.async_sgd.workers import (
    SimulationOptions,
    Station,
    Workers,
    chances,
    group_of_each,
    station_numbers,
    stations_of,
)
from warehouse.records import BadInput

# What groups of workers do, as the kernel's arrays: operations, their work, what starts first.


class LaidOutGroup(NamedTuple):
    """The operations of one group, by position, `at` being the first one's.

    `operations` lack where their successors and stations are, which are `successors` and `touched`.
    """

    at: int
    operations: Any
    successors: list[list[int]]
    touched: list[list[int]]
    timings: Any
    roots: Shorts
    release_s: Floats
    rank_of_served: int


_MOST_LAID = 8
_LAID: dict[Hashable, tuple[StepGraph, Sequence[ProfiledStep], LaidOutGroup]] = {}
_TURN = Lock()


def is_limited(resource: Resource, options: SimulationOptions) -> bool:
    """Return whether a worker uses a station for one operation at a time."""
    return resource.is_link or (resource is Resource.WORKER and options.inter_op_threads == 1)


def _laid_once(group: Workers, stations: Sequence[Station], at: int) -> LaidOutGroup:
    """Return the operations of a group; the last few are kept, by what they are laid out of.

    Seeds and numbers of workers simulate the same steps of a profile.
    """
    graph, steps, options = group
    chosen = options.ranks, options.inter_op_threads, options.record
    key = (id(graph), id(steps), *chosen, stations, at)
    with _TURN:
        if key not in _LAID:
            if len(_LAID) == _MOST_LAID:
                del _LAID[next(iter(_LAID))]
            # What is kept keeps its id.
            _LAID[key] = graph, steps, _laid(group, stations, at)
        return _LAID[key][-1]


def _laid(group: Workers, stations: Sequence[Station], at: int) -> LaidOutGroup:
    graph, steps, options = group
    station_of = station_numbers(graph, stations)
    order = np.argsort(np.array([step.ranks for step in steps]).sum(axis=0), kind="stable")
    place = np.argsort(order) + at
    operations: Any = OperationFields.zeros(len(order))
    operations["station"] = np.array(station_of)[order]
    operations["predecessors"] = np.array(graph.predecessors)[order]
    numbers = ((operations["station"].astype(np.int64) + STATION_OFFSET) << OPERATION_BITS) | order
    operations["code"] = (numbers << OPERATION_BITS) | (np.arange(len(order)) + at)
    chained = _chained(group)
    operations["chained"] = [NOTHING if chained[i] is None else place[chained[i]] for i in order]
    enforced = np.unique(options.ranks or (0,) * len(order), return_inverse=True)[1]
    roots = [i for i, count in enumerate(graph.predecessors) if count == 0]
    released = [sorted(roots, key=lambda i: (step.release_s[i], i)) for step in steps]
    return LaidOutGroup(
        at=at,
        operations=operations,
        successors=[[int(place[target]) for target in graph.successors[i]] for i in order],
        touched=[_touched(graph, station_of, options, i) for i in order],
        timings=_timings(group, enforced, order),
        roots=place[np.array(released)].astype(np.int32).reshape(-1),
        release_s=np.array(
            [step.release_s[i] for step, row in zip(steps, released, strict=True) for i in row]
        ),
        rank_of_served=0 if options.ranks is None else int(enforced.max()) + 1,
    )


def _chained(group: Workers) -> list[int | None]:
    """Return, by number, the operation that follows each at once and that nothing else concerns.

    Both are delays at servers, the one waits for the other alone, and nothing else does. Where
    intervals are recorded, each operation has its own.
    """
    graph, steps, options = group
    followers: list[int | None] = [None] * len(graph.names)
    if options.record:
        return followers
    delays = [
        resource is Resource.PS and all(step.seconds[i] > 0 for step in steps)
        for i, resource in enumerate(graph.resources)
    ]
    for i, targets in enumerate(graph.successors):
        if delays[i] and len(targets) == 1:
            (target,) = targets
            if delays[target] and graph.predecessors[target] == 1:
                followers[i] = target
    return followers


def _touched(
    graph: StepGraph, station_of: Sequence[int], options: SimulationOptions, operation: int
) -> list[int]:
    """Return the stations where the end of an operation may let something start."""
    used = {station_of[i] for i in graph.successors[operation]}
    if is_limited(graph.resources[operation], options):
        used.add(station_of[operation])
    return sorted(used)


def _timings(group: Workers, enforced: Any, order: Any) -> Any:
    """Return all steps' timings, transfers with their bytes and enforced ranks, by position."""
    graph, steps, _ = group
    is_transfer = np.array([resource.is_link for resource in graph.resources])
    size_bytes = np.array(graph.sizes_bytes, np.float64)
    timings = TimingFields.zeros(len(steps) * len(order))
    for row, step in zip(timings.reshape(len(steps), -1), steps, strict=True):
        row["work"] = np.where(is_transfer, size_bytes, step.seconds)[order]
        row["rank"] = np.where(is_transfer, enforced, step.ranks)[order]
    return timings


_MOST_WORKERS = 2**12


def lay_out(groups: Sequence[Workers]) -> tuple[SimulationJob, SimulationState]:
    """Return a job and the state in which its simulation starts.

    Raises:
        BadInput: more operations, servers or workers than fit into an event's code.
    """
    for name, count, most in (
        ("operations", sum(len(group.graph.names) for group in groups), OPERATION_MASK),
        ("stations", len(stations_of(groups)), STATION_MASK - 1),
        ("workers", len(group_of_each(groups)), _MOST_WORKERS),
    ):
        if count > most:
            raise BadInput(f"compiled simulation: expected at most {most} {name}, found {count}")
    stations, parts, at = stations_of(groups), list[LaidOutGroup](), 0
    for group in groups:
        parts.append(_laid_once(group, stations, at))
        at += len(group.graph.names)
    job = _job(groups, parts)
    return job, _state(groups, parts, job)


def trace_of(groups: Sequence[Workers], job: SimulationJob, state: SimulationState) -> Trace:
    """Return what happened."""
    kept = zip(state.recorded.tolist(), state.recorded_s.tolist(), strict=True)
    graphs = [group.graph for group in group_of_each(groups)]
    intervals = tuple(
        Interval(
            worker=worker,
            step=step,
            operation=operation,
            resource=graphs[worker].resources[operation],
            server=graphs[worker].servers[operation],
            start_s=start_s,
            end_s=end_s,
            size_bytes=work if graphs[worker].resources[operation].is_link else 0.0,
        )
        for (worker, step, operation), (start_s, end_s, work) in kept
    )
    return Trace(state.starts_s, state.ends_s, _chunks(groups, job), intervals)


def _job(groups: Sequence[Workers], parts: Sequence[LaidOutGroup]) -> SimulationJob:
    """Lay a job out; random choices are those of `workers.chances`."""
    options, drawn = groups[0].options, chances(groups)
    workers = len(drawn.sampled)
    successors = [targets for part in parts for targets in part.successors]
    touched = [used for part in parts for used in part.touched]
    operations: Any = OperationFields.zeros(len(successors) + 1)
    operations[:-1] = np.concatenate([part.operations for part in parts])
    operations["successors_at"] = np.cumsum([0, *map(len, successors)])
    operations["touched_at"] = np.cumsum([0, *map(len, touched)])
    return SimulationJob(
        operations=operations,
        successors=np.array(list(chain.from_iterable(successors)), np.int32),
        touched=np.array(list(chain.from_iterable(touched)), np.int32),
        timings=np.concatenate([part.timings for part in parts]),
        roots=np.concatenate([part.roots for part in parts]),
        release_s=np.concatenate([part.release_s for part in parts]),
        sampled=drawn.sampled.astype(np.int32),
        gap_s=drawn.gap_s,
        weights=np.array(drawn.weights),
        newcomer=np.array([options.newcomer_weight**n for n in range(workers + 1)]),
        newcomer_pause_s=float(options.newcomer_pause_s),
        servers=servers_of(stations_of(groups)),
        speeds_Bps=speeds_of(groups),
        two_servers=options.sharing == "two_servers",
        shares=shares_of(options, workers),
        opposed=opposed_of(options, workers),
        window_bytes=float("inf") if options.window_bytes is None else float(options.window_bytes),
        record=options.record,
    )


def _state(
    groups: Sequence[Workers], parts: Sequence[LaidOutGroup], job: SimulationJob
) -> SimulationState:
    """Return the state in which nothing runs or waits."""
    rows = rows_of(groups)
    records, heap, connections = row_records(rows)
    workers = _workers(groups, parts, heap)
    count, operations = len(workers), int(workers["operations"].sum())
    tournament = NextEventFields.zeros(2 << max(len(records) - 1, 1).bit_length())
    tournament["time_bits"] = np.float64(np.inf).view(np.int64)
    kept = _chunks(groups, job) if job.record else 0
    predecessors = [part.operations["predecessors"] for part in parts]
    return SimulationState(
        workers=workers,
        lanes=_lanes(groups, rows, 2 * _starts(workers["operations"])),
        rows=records,
        waiting=np.concatenate(
            [
                np.tile(counts, group.options.workers)
                for group, counts in zip(groups, predecessors, strict=True)
            ]
        ),
        queue=np.zeros(2 * operations, np.int64),
        heap=NextEventFields.zeros(heap + operations),
        connections=connections,
        of_server=np.zeros(max(job.servers, 2), np.int64),
        left_Bps=np.zeros(job.servers + count),
        rising=np.zeros(job.servers + count),
        changed=np.zeros(len(records) + 1, np.int64),
        tournament=tournament,
        finished=np.zeros(workers["operations"].max(), np.int32),
        starts_s=np.full(job.sampled.shape, np.nan),
        ends_s=np.full(job.sampled.shape, np.nan),
        chunk_start_s=np.zeros(operations if job.record else 0),
        kept=np.zeros(1, np.int64),
        recorded=np.zeros((kept, 3), np.int64),
        recorded_s=np.zeros((kept, 3)),
    )


def _workers(groups: Sequence[Workers], parts: Sequence[LaidOutGroup], heap: int) -> Any:
    """Return the workers; what is timed lies behind the flows of rows in `State.heap`."""
    workers: Any = WorkerFields.zeros(len(group_of_each(groups)))
    first = roots_at = timings_at = 0
    for (graph, steps, options), part in zip(groups, parts, strict=True):
        group_workers = workers[first : first + options.workers]
        group_workers["steps"] = options.steps
        group_workers["operations"] = len(graph.names)
        group_workers["roots"] = len(part.roots) // len(steps)
        group_workers["roots_at"] = roots_at
        group_workers["profiled_at"] = timings_at - part.at
        group_workers["waiting_at"] = -part.at
        group_workers["rank_of_served"] = part.rank_of_served
        first += options.workers
        roots_at += len(part.roots)
        timings_at += len(part.timings)
    before = _starts(workers["operations"])
    workers["waiting_at"] += before
    workers["timed_at"] = heap + before
    workers["lanes_at"] = np.arange(len(workers)) * len(stations_of(groups))
    return workers


def _lanes(groups: Sequence[Workers], rows: SharedRows, queues_at: Ints) -> Any:
    """Return what each worker finds at each station; its queues begin at `queues_at`."""
    stations = stations_of(groups)
    lanes = LaneFields.zeros(len(queues_at) * len(stations))
    first = 0
    for graph, _, options in groups:
        workers = np.arange(first, first + options.workers)
        first += options.workers
        queue_at = queues_at[workers]
        for station, (resource, server) in enumerate(stations):
            station_lanes = lanes.reshape(-1, len(stations))[workers[0] : first, station]
            row = rows.of_station[station]
            station_lanes["is_link"] = resource.is_link
            station_lanes["is_uplink"] = resource is Resource.UPLINK
            station_lanes["weight"] = 1.0
            station_lanes["ended_s"] = -np.inf
            station_lanes["server"] = server
            station_lanes["is_limited"] = is_limited(resource, options)
            station_lanes["row"] = workers if row is None else row
            station_lanes["queue_at"] = queue_at
            if (resource, server) in graph.stations:
                used = graph.station_of.count(graph.stations.index((resource, server)))
                queue_at = queue_at + 2 * used
    return lanes


def _chunks(groups: Sequence[Workers], job: SimulationJob) -> int:
    """Return how many chunks all workers' steps have."""
    return sum(
        (
            len(graph.names)
            + sum(
                resource.is_link and size > job.window_bytes
                for resource, size in zip(graph.resources, graph.sizes_bytes, strict=True)
            )
        )
        * options.workers
        * options.steps
        for graph, _, options in groups
    )


def _starts(lengths: Ints) -> Ints:
    """Return where each of several stretches begins that lie one after the other."""
    return np.cumsum(lengths) - lengths
