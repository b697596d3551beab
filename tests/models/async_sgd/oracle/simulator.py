"""Synthetic traces of asynchronous SGD with any number of workers (Algorithm 3.1).

Source: Li et al., "Throughput Prediction of Asynchronous SGD in TensorFlow", ICPE 2020, section
3.4; lab/async_sgd.md names the four faults of the printed algorithm that are mended here.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.link_sharing import Flow, SharedResource
from models.async_sgd.synthetic_trace import Interval, Trace
from models.async_sgd.workers import (
    SimulationOptions,
    Station,
    Workers,
    chances,
    station_numbers,
    stations_of,
)
from tests.models.async_sgd.oracle.links import Shared, SharedLinks, shared_links
from tests.models.async_sgd.oracle.streams import Chunk, StreamScheduler

_NEXT_STEP = -1
_RELEASE = -2
_UNLIMITED = 2**62


def simulate(graph: StepGraph, steps: Sequence[ProfiledStep], options: SimulationOptions) -> Trace:
    """Run the discrete-event simulation; equal arguments give equal traces.

    Steps are sampled with replacement from `steps`. Simultaneous events are handled by worker,
    resource, operation.
    """
    return simulate_together([Workers(graph, steps, options)])


def simulate_together(groups: Sequence[Workers]) -> Trace:
    """Run the simulation of groups of workers that differ, on the same servers."""
    return _Simulation(groups).run()


class ComputationQueue:
    """Computations whose inputs are there, in the order in which the framework started them."""

    def __init__(self) -> None:
        self._queue: list[tuple[int, int, float]] = []

    def __bool__(self) -> bool:
        """Whether anything is left to select."""
        return bool(self._queue)

    def add(self, operation: int, seconds: float, rank: int) -> None:
        """Let a computation wait; those of smaller rank go first."""
        heappush(self._queue, (rank, operation, seconds))

    def next_chunk(self) -> Chunk:
        """Select a computation; it always runs to its end."""
        _, operation, seconds = heappop(self._queue)
        return Chunk(operation, seconds, last=True)


class _Group:
    """What the workers of a group have in common; stations are those of all groups."""

    def __init__(self, group: Workers, stations: Sequence[Station]) -> None:
        self.graph, self.steps, self.options = group
        self.station_of = station_numbers(self.graph, stations)
        self.touched = [
            tuple(sorted({self.station_of[i] for i in (operation, *targets)}))
            for operation, targets in enumerate(self.graph.successors)
        ]
        self.roots = [i for i, count in enumerate(self.graph.predecessors) if count == 0]
        at_once = {Resource.WORKER: 1 if self.options.inter_op_threads == 1 else _UNLIMITED}
        self.slots = [
            1 if resource.is_link else at_once.get(resource, _UNLIMITED) for resource, _ in stations
        ]


class _Worker:
    """One worker's step, and per station what waits and what runs there (chunk, start)."""

    __slots__ = ("group", "queues", "running", "shared", "step", "unfinished", "waiting")

    def __init__(
        self, group: _Group, stations: Sequence[Station], shared: Sequence[Shared | None]
    ) -> None:
        options = group.options
        self.group = group
        self.queues: list[StreamScheduler | ComputationQueue] = []
        self.shared: list[Shared | None] = []
        for (resource, _), common in zip(stations, shared, strict=True):
            is_worker = resource is Resource.WORKER
            self.shared.append(SharedResource(options.cores, 1.0) if is_worker else common)
            self.queues.append(
                StreamScheduler(options.window_bytes, options.ranks)
                if resource.is_link
                else ComputationQueue()
            )
        self.running: list[dict[int, tuple[Chunk, float]]] = [{} for _ in shared]
        self.step: ProfiledStep
        self.waiting: list[int] = []
        self.unfinished = 0


class _Simulation:
    """Algorithm 3.1. Events are (time, worker, station, operation, resource's count of changes).

    What is shared has one event, for the flow that ends first; it is void once that has changed.
    `changed` are those that the current event changes.
    """

    def __init__(self, groups: Sequence[Workers]) -> None:
        self.stations = stations_of(groups)
        shared = shared_links(groups)
        alike = [_Group(group, self.stations) for group in groups]
        self.workers = [
            _Worker(group, self.stations, shared)
            for group in alike
            for _ in range(group.options.workers)
        ]
        drawn = chances(groups)
        self.sampled, self.gaps_s = drawn.sampled.tolist(), drawn.gap_s.tolist()
        down, up = drawn.weights
        self.weights = {Resource.DOWNLINK: down.tolist(), Resource.UPLINK: up.tolist()}
        self.starts_s: list[list[float]] = [[] for _ in self.workers]
        self.ends_s: list[list[float]] = [[] for _ in self.workers]
        self.events: list[tuple[float, int, int, int, int]] = []
        self.changed: dict[Shared, None] = {}
        self.record = groups[0].options.record
        self.intervals: list[Interval] = []
        self.now_s = 0.0
        self.count = 0

    def run(self) -> Trace:
        for index in range(len(self.workers)):
            self._start_step(index)
        while self.events:
            self.now_s, index, station, operation, change = heappop(self.events)
            if station == _NEXT_STEP:
                self._start_step(index)
            elif station == _RELEASE:
                self._release(index, operation)
            elif (shared := self.workers[index].shared[station]) is None:
                self._end_chunk(index, station, operation)
            elif change == shared.changes:
                shared.finish(self.now_s)
                self._changes(shared)
                self._end_chunk(index, station, operation)
            self._schedule_changed()
        return Trace(padded(self.starts_s), padded(self.ends_s), self.count, tuple(self.intervals))

    def _start_step(self, index: int) -> None:
        worker = self.workers[index]
        worker.step = worker.group.steps[self.sampled[index][len(self.starts_s[index])]]
        worker.waiting = list(worker.group.graph.predecessors)
        worker.unfinished = len(worker.waiting)
        self.starts_s[index].append(self.now_s)
        for operation in worker.group.roots:
            release_s = self.now_s + worker.step.release_s[operation]
            heappush(self.events, (release_s, index, _RELEASE, operation, 0))

    def _release(self, index: int, operation: int) -> None:
        worker = self.workers[index]
        self._enqueue(worker, operation)
        finished: list[int] = []
        self._dispatch(index, worker.group.station_of[operation], finished)
        self._complete(index, finished)

    def _end_chunk(self, index: int, station: int, operation: int) -> None:
        chunk, start_s = self.workers[index].running[station].pop(operation)
        self._record(index, chunk, start_s)
        finished = [operation] if chunk.last else []
        if not chunk.last:
            self._dispatch(index, station, finished)
        self._complete(index, finished)

    def _complete(self, index: int, finished: list[int]) -> None:
        """Complete operations and start what can run then; what takes no time completes too."""
        worker = self.workers[index]
        waiting = worker.waiting
        for operation in finished:
            for target in worker.group.graph.successors[operation]:
                waiting[target] -= 1
                if not waiting[target]:
                    self._enqueue(worker, target)
            for station in worker.group.touched[operation]:
                self._dispatch(index, station, finished)
        worker.unfinished -= len(finished)
        if finished and not worker.unfinished:
            self._end_step(index)

    def _end_step(self, index: int) -> None:
        ends_s = self.ends_s[index]
        gap_s = self.gaps_s[index][len(ends_s)]
        ends_s.append(self.now_s)
        if len(ends_s) < self.workers[index].group.options.steps:
            heappush(self.events, (self.now_s + gap_s, index, _NEXT_STEP, 0, 0))

    def _enqueue(self, worker: _Worker, operation: int) -> None:
        queue = worker.queues[worker.group.station_of[operation]]
        if isinstance(queue, StreamScheduler):
            queue.add(operation, worker.group.graph.sizes_bytes[operation])
        else:
            queue.add(operation, worker.step.seconds[operation], worker.step.ranks[operation])

    def _dispatch(self, index: int, station: int, finished: list[int]) -> None:
        """Start what a station has room for; append to `finished` what takes no time."""
        worker = self.workers[index]
        queue, running, shared = (
            worker.queues[station],
            worker.running[station],
            worker.shared[station],
        )
        while queue and len(running) < worker.group.slots[station]:
            chunk = queue.next_chunk()
            if chunk.size <= 0:
                self._record(index, chunk, self.now_s)
                finished.append(chunk.operation)
                continue
            running[chunk.operation] = chunk, self.now_s
            if shared is None:
                end_s = self.now_s + chunk.size
                heappush(self.events, (end_s, index, station, chunk.operation, 0))
            else:
                flow = Flow(index, station, chunk.operation)
                weight = self._weight(index, self.stations[station][0])
                shared.start(self.now_s, flow, chunk.size, weight)
                self._changes(shared)

    def _weight(self, index: int, resource: Resource) -> float:
        if not resource.is_link:
            return 1.0
        return float(self.weights[resource][index][len(self.ends_s[index])])

    def _changes(self, shared: Shared) -> None:
        self.changed[shared] = None
        if isinstance(shared, SharedLinks) and shared.opposite is not None:
            shared.opposite.disturbed(self.now_s)
            self.changed[shared.opposite] = None

    def _schedule_changed(self) -> None:
        for shared in self.changed:
            upcoming = shared.next_finish()
            if upcoming is not None:
                end_s, flow = upcoming
                heappush(self.events, (end_s, *flow, shared.changes))
        self.changed.clear()

    def _record(self, index: int, chunk: Chunk, start_s: float) -> None:
        self.count += 1
        if self.record:
            graph = self.workers[index].group.graph
            resource = graph.resources[chunk.operation]
            self.intervals.append(
                Interval(
                    worker=index,
                    step=len(self.ends_s[index]),
                    operation=chunk.operation,
                    resource=resource,
                    server=graph.servers[chunk.operation],
                    start_s=start_s,
                    end_s=self.now_s,
                    size_bytes=chunk.size if resource.is_link else 0.0,
                )
            )


def padded(times_s: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    """Return the times of each worker's steps as an array, NaN where it has fewer than others."""
    shape = len(times_s), max(map(len, times_s))
    rows = np.full(shape, np.nan)
    for row, times in zip(rows, times_s, strict=True):
        row[: len(times)] = times
    return rows
