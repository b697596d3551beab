"""From graphs, profiled steps and options to the kernel's arrays, and back to a trace."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.async_sgd.graph import Graph, ProfiledStep, Resource
from models.async_sgd.kernel.rows import (
    Rows,
    row_records,
    rows_of,
    servers_of,
    shares_of,
    speeds_of,
)
from models.async_sgd.kernel.state import (
    OPERATION_BITS,
    OPERATION_MASK,
    STATION_MASK,
    STATION_OFFSET,
    Job,
    Lane,
    Next,
    Operation,
    Shorts,
    State,
    Timing,
    Worker,
)
from models.async_sgd.options import Options
from models.async_sgd.synthetic_trace import Interval, Trace
from warehouse.records import BadInput

_MOST_WORKERS = 2**12


def lay_out(graph: Graph, steps: Sequence[ProfiledStep], options: Options) -> tuple[Job, State]:
    """Return a job and the state in which its simulation starts.

    Raises:
        BadInput: more operations, servers or workers than fit into an event's code.
    """
    for name, found, most in (
        ("operations", len(graph.names), OPERATION_MASK),
        ("stations", len(graph.stations), STATION_MASK - 1),
        ("workers", options.workers, _MOST_WORKERS),
    ):
        if found > most:
            raise BadInput(f"compiled simulation: expected at most {most} {name}, found {found}")
    rows = rows_of(graph, options)
    job = _job(graph, steps, options)
    return job, _state(graph, options, rows, job)


def trace_of(graph: Graph, job: Job, state: State) -> Trace:
    """Return what happened."""
    kept = zip(state.recorded.tolist(), state.recorded_s.tolist(), strict=True)
    intervals = tuple(
        Interval(
            worker=worker,
            step=step,
            operation=operation,
            resource=graph.resources[operation],
            server=graph.servers[operation],
            start_s=start_s,
            end_s=end_s,
            size_bytes=work if graph.resources[operation].is_link else 0.0,
        )
        for (worker, step, operation), (start_s, end_s, work) in kept
    )
    return Trace(state.starts_s, state.ends_s, _chunks(graph, job), intervals)


def _job(graph: Graph, steps: Sequence[ProfiledStep], options: Options) -> Job:
    """Lay a job out; random choices are those of `models.async_sgd.simulator`."""
    shape = (options.workers, options.steps)
    random = np.random.default_rng(options.seed)
    sampled = random.integers(len(steps), size=shape).astype(np.int32)
    gap_s = random.choice(np.array(options.client_gap_s), size=shape)
    spreads = (options.downlink_spread, options.uplink_spread)
    weights = np.array([random.lognormal(0.0, spread, shape) for spread in spreads])
    order = np.argsort(np.array([step.ranks for step in steps]).sum(axis=0), kind="stable")
    place = np.argsort(order)
    successors = [[int(place[target]) for target in graph.successors[i]] for i in order]
    touched = [_touched(graph, options, operation) for operation in order]
    operations = Operation.zeros(len(order) + 1)
    stations = np.array(graph.station_of)[order] + STATION_OFFSET
    numbers = (stations << OPERATION_BITS) | order
    operations["code"][:-1] = (numbers << OPERATION_BITS) | np.arange(len(order))
    operations["station"][:-1] = np.array(graph.station_of)[order]
    operations["predecessors"][:-1] = np.array(graph.predecessors)[order]
    operations["successors_at"] = np.cumsum([0, *map(len, successors)])
    operations["touched_at"] = np.cumsum([0, *map(len, touched)])
    enforced = np.unique(options.ranks or (0,) * len(order), return_inverse=True)[1]
    roots = [i for i, count in enumerate(graph.predecessors) if count == 0]
    released = [sorted(roots, key=lambda i: (step.release_s[i], i)) for step in steps]
    return Job(
        operations=operations,
        predecessors=_shorts(np.array(graph.predecessors)[order]),
        successors=_shorts([i for targets in successors for i in targets]),
        touched=_shorts([i for used in touched for i in used]),
        timings=_timings(graph, steps, enforced, order),
        roots=np.array([place[row] for row in released], np.int32),
        release_s=np.array(
            [[step.release_s[i] for i in row] for step, row in zip(steps, released, strict=True)]
        ),
        sampled=sampled,
        gap_s=gap_s,
        weights=weights,
        newcomer=np.array([options.newcomer_weight**n for n in range(options.workers + 1)]),
        newcomer_pause_s=float(options.newcomer_pause_s),
        servers=servers_of(graph),
        speeds_Bps=speeds_of(graph, options),
        two_servers=options.sharing == "two_servers",
        shares=shares_of(options),
        window_bytes=float("inf") if options.window_bytes is None else float(options.window_bytes),
        rank_of_served=0 if options.ranks is None else int(enforced.max()) + 1,
        record=options.record,
    )


def _touched(graph: Graph, options: Options, operation: int) -> list[int]:
    """Return the stations where the end of an operation may let something start."""
    used = {graph.station_of[i] for i in graph.successors[operation]}
    if _is_limited(graph.resources[operation], options):
        used.add(graph.station_of[operation])
    return sorted(used)


def _is_limited(resource: Resource, options: Options) -> bool:
    """Return whether a worker uses a station for one operation at a time."""
    return resource.is_link or (resource is Resource.WORKER and options.inter_op_threads == 1)


def _timings(graph: Graph, steps: Sequence[ProfiledStep], enforced: Any, order: Any) -> Any:
    """Return all steps' timings, transfers with their bytes and enforced ranks, by position."""
    is_transfer = np.array([resource.is_link for resource in graph.resources])
    size_bytes = np.array(graph.sizes_bytes, np.float64)
    timings = Timing.zeros(len(steps) * len(order))
    for row, step in zip(timings.reshape(len(steps), -1), steps, strict=True):
        row["work"] = np.where(is_transfer, size_bytes, step.seconds)[order]
        row["rank"] = np.where(is_transfer, enforced, step.ranks)[order]
    return timings


def _state(graph: Graph, options: Options, rows: Rows, job: Job) -> State:
    """Return the state in which nothing runs or waits."""
    count, n = options.workers, len(graph.names)
    records, heap, connections = row_records(rows)
    workers: Any = Worker.zeros(count)
    workers["waiting_at"] = np.arange(count) * n
    workers["lanes_at"] = np.arange(count) * len(graph.stations)
    workers["timed_at"] = heap + np.arange(count) * n
    tournament = Next.zeros(2 << max(len(records) - 1, 1).bit_length())
    tournament["time_s"] = np.inf
    kept = _chunks(graph, job) if job.record else 0
    return State(
        workers=workers,
        lanes=_lanes(graph, options, rows),
        rows=records,
        waiting=np.tile(job.predecessors, count),
        queue=np.zeros(2 * count * n, np.int64),
        heap=Next.zeros(heap + count * n),
        connections=connections,
        of_server=np.zeros(max(job.servers, 2), np.int64),
        left_Bps=np.zeros(job.servers + count),
        rising=np.zeros(job.servers + count),
        changed=np.zeros(len(records) + 1, np.int64),
        tournament=tournament,
        finished=np.zeros(n, np.int32),
        starts_s=np.zeros((count, options.steps)),
        ends_s=np.zeros((count, options.steps)),
        chunk_start_s=np.zeros(count * n if job.record else 0),
        kept=np.zeros(1, np.int64),
        recorded=np.zeros((kept, 3), np.int64),
        recorded_s=np.zeros((kept, 3)),
    )


def _lanes(graph: Graph, options: Options, rows: Rows) -> Any:
    """Return what each worker finds at each station."""
    workers = np.arange(options.workers)
    lanes = Lane.zeros(options.workers * len(graph.stations))
    queue_at = 0
    for station, (resource, server) in enumerate(graph.stations):
        mine = lanes.reshape(options.workers, -1)[:, station]
        row = rows.of_station[station]
        mine["is_link"] = resource.is_link
        mine["is_uplink"] = resource is Resource.UPLINK
        mine["weight"] = 1.0
        mine["ended_s"] = -np.inf
        mine["server"] = server
        mine["is_limited"] = _is_limited(resource, options)
        mine["row"] = workers if row is None else row
        mine["queue_at"] = queue_at + workers * 2 * len(graph.names)
        queue_at += 2 * graph.station_of.count(station)
    return lanes


def _chunks(graph: Graph, job: Job) -> int:
    """Return how many chunks all workers' steps have."""
    split = sum(
        resource.is_link and size > job.window_bytes
        for resource, size in zip(graph.resources, graph.sizes_bytes, strict=True)
    )
    return (len(graph.names) + split) * job.sampled.size


def _shorts(values: Any) -> Shorts:
    return np.array(values, np.int32).reshape(-1)
