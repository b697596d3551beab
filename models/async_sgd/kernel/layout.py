"""From graphs, profiled steps and options to the kernel's arrays, and back to a trace."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from models.async_sgd.graph import Graph, ProfiledStep, Resource
from models.async_sgd.kernel.state import (
    UNSHARED,
    Job,
    Lane,
    Leaf,
    Operation,
    Row,
    Shorts,
    State,
    Timing,
    Worker,
)
from models.async_sgd.options import Options
from models.async_sgd.synthetic_trace import Interval, Trace

_UNLIMITED = 2**62


def job_of(graph: Graph, steps: Sequence[ProfiledStep], options: Options) -> Job:
    """Lay a job out for the kernel; random choices are those of `models.async_sgd.simulator`."""
    shape = (options.workers, options.steps)
    random = np.random.default_rng(options.seed)
    sampled = random.integers(len(steps), size=shape).astype(np.int32)
    gap_s = random.choice(np.array(options.client_gap_s), size=shape)
    spreads = (options.downlink_spread, options.uplink_spread)
    weights = np.array([random.lognormal(0.0, spread, shape) for spread in spreads])
    order = _positions(steps)
    place = np.argsort(order)
    successors = [[int(place[target]) for target in graph.successors[i]] for i in order]
    touched = [
        sorted({graph.station_of[i] for i in (operation, *graph.successors[operation])})
        for operation in order
    ]
    operations = Operation.zeros(len(order) + 1)
    operations["number"][:-1] = order
    operations["station"][:-1] = np.array(graph.station_of)[order]
    operations["predecessors"][:-1] = np.array(graph.predecessors)[order]
    operations["successors_at"] = _starts(successors)
    operations["touched_at"] = _starts(touched)
    is_transfer = np.array([resource.is_link for resource in graph.resources])
    timings = Timing.zeros(len(steps) * len(order)).reshape(len(steps), len(order))
    bytes_ = np.array(graph.sizes_bytes, np.float64)
    enforced = np.zeros(len(order), np.int32)
    if options.ranks is not None:
        enforced = np.unique(options.ranks, return_inverse=True)[1].astype(np.int32)
    for row, step in zip(timings, steps, strict=True):
        row["work"] = np.where(is_transfer, bytes_, step.seconds)[order]
        row["rank"] = np.where(is_transfer, enforced, step.ranks)[order]
    roots = [i for i, count in enumerate(graph.predecessors) if count == 0]
    released = [sorted(roots, key=lambda i: (step.release_s[i], i)) for step in steps]
    return Job(
        operations=operations,
        predecessors=_shorts(graph.predecessors)[order],
        successors=_shorts([i for targets in successors for i in targets]),
        touched=_shorts([i for used in touched for i in used]),
        timings=timings.ravel(),
        roots=np.array([place[row] for row in released], np.int32),
        release_s=np.array(
            [[step.release_s[i] for i in row] for step, row in zip(steps, released, strict=True)]
        ),
        sampled=sampled,
        gap_s=gap_s,
        weights=weights,
        newcomer=np.array([options.newcomer_weight**n for n in range(options.workers + 1)]),
        window_bytes=float("inf") if options.window_bytes is None else float(options.window_bytes),
        rank_of_served=0 if options.ranks is None else int(enforced.max()) + 1,
        record=options.record,
    )


def _positions(steps: Sequence[ProfiledStep]) -> list[int]:
    """Return all operations in the order in which profiled steps started them, on average."""
    ranks = np.array([step.ranks for step in steps])
    return [int(i) for i in np.argsort(ranks.sum(axis=0), kind="stable")]


def _most_flows(graph: Graph, workers: int) -> list[int]:
    """Return how many flows can share a worker's cores, and each link."""
    cores = sum(resource is Resource.WORKER for resource in graph.resources)
    return [cores] + [workers for resource, _ in graph.stations if resource.is_link]


def _link_speeds_Bps(graph: Graph, options: Options) -> list[float]:
    """Return the speed of each link."""
    speed_Bps = {Resource.DOWNLINK: options.downlink_Bps, Resource.UPLINK: options.uplink_Bps}
    return [speed_Bps[resource] for resource, _ in graph.stations if resource.is_link]


def state_of(graph: Graph, options: Options, job: Job) -> State:
    """Return the state in which a simulation starts: nothing runs or waits."""
    count, steps = job.sampled.shape
    n = len(graph.names)
    most = _most_flows(graph, count)
    rows: Any = Row.zeros(count + len(most) - 1)
    held = np.array([most[0]] * count + most[1:])
    rows["flows_at"] = np.cumsum([0, *np.maximum(held, 1)])[:-1]
    rows["capacity"], rows["cap"] = options.cores, 1.0
    rows["capacity"][count:] = _link_speeds_Bps(graph, options)
    rows["cap"][count:] = options.link_cap_Bps
    flows = int(np.maximum(held, 1).sum())
    workers: Any = Worker.zeros(count)
    workers["waiting_at"] = np.arange(count) * n
    workers["lanes_at"] = np.arange(count) * len(graph.stations)
    workers["timed_at"] = flows + np.arange(count) * (n + 1)
    leaves = 1 << max(len(rows) - 1, 1).bit_length()
    leaf = Leaf.zeros(leaves)
    leaf["time_s"] = np.inf
    kept = _chunks(graph, job) if job.record else 0
    return State(
        workers=workers,
        lanes=_lanes(graph, options),
        rows=rows,
        waiting=np.tile(job.predecessors, count),
        queue=np.zeros(count * n, np.int64),
        heap=np.zeros(flows + count * (n + 1)),
        heap_code=np.zeros(flows + count * (n + 1), np.int64),
        changed=np.zeros(len(rows) + 1, np.int64),
        leaves=leaf,
        winner=_shorts(
            [(i << (leaves.bit_length() - i.bit_length())) - leaves for i in range(leaves)]
        ),
        finished=np.zeros(n, np.int32),
        starts_s=np.zeros((count, steps)),
        ends_s=np.zeros((count, steps)),
        chunk_start_s=np.zeros(count * n if job.record else 0),
        kept=np.zeros(1, np.int64),
        recorded=np.zeros((kept, 3), np.int64),
        recorded_s=np.zeros((kept, 3)),
    )


def _lanes(graph: Graph, options: Options) -> Any:
    """Return what each worker finds at each station."""
    lanes = Lane.zeros(options.workers * len(graph.stations))
    by_worker = lanes.reshape(options.workers, len(graph.stations))
    row = options.workers
    queue_at = 0
    for station, (resource, _) in enumerate(graph.stations):
        mine = by_worker[:, station]
        mine["is_link"] = resource.is_link
        mine["is_uplink"] = resource is Resource.UPLINK
        mine["weight"] = 1.0
        mine["slots"] = 1 if resource.is_link else _UNLIMITED
        mine["row"] = UNSHARED
        if resource is Resource.WORKER:
            mine["row"] = np.arange(options.workers)
            mine["slots"] = 1 if options.inter_op_threads == 1 else _UNLIMITED
        elif resource.is_link:
            mine["row"] = row
            row += 1
        mine["queue_at"] = queue_at + np.arange(options.workers) * len(graph.names)
        queue_at += graph.station_of.count(station)
    return lanes


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


def _chunks(graph: Graph, job: Job) -> int:
    """Return how many chunks will run."""
    is_transfer = np.array([resource.is_link for resource in graph.resources])
    split = is_transfer & (np.array(graph.sizes_bytes) > job.window_bytes)
    return (len(graph.names) + int(split.sum())) * job.sampled.size


def _shorts(values: Sequence[int]) -> Shorts:
    return np.array(values, np.int32).reshape(-1)


def _starts(rows: Sequence[Sequence[int]]) -> Any:
    return np.cumsum([0, *map(len, rows)])
