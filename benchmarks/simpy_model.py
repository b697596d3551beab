"""The simulator's model in SimPy, as a peer: equal graphs and options give equal step times.

Of the options it knows one server or several with links of their own (`sharing="equal"`), no
enforced orders, and servers that compute for each worker independently.
"""

from collections.abc import Generator, Sequence
from itertools import count

import numpy as np
import simpy
from numpy.typing import NDArray

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.link_sharing import Flow, NewcomerWeights, SharedResource
from models.async_sgd.workers import SimulationOptions

Process = Generator[simpy.Event, None, None]


def simulate(
    graph: StepGraph, steps: Sequence[ProfiledStep], options: SimulationOptions
) -> tuple[NDArray[np.float64], int]:
    """Return when steps ended, seconds, shape (workers, steps), and how many chunks ran."""
    model = _Model(graph, steps, options)
    for worker in range(options.workers):
        model.env.process(model.train(worker))
    model.env.run()
    return np.array(model.ends_s), model.chunks


class _Shared:
    """What flows share by weight: an event for each, and a timer for the one that ends first."""

    def __init__(self, env: simpy.Environment, resource: SharedResource) -> None:
        self._env, self._resource = env, resource
        self._done: dict[Flow, simpy.Event] = {}

    def use(self, flow: Flow, size: float, weight: float) -> simpy.Event:
        """Return an event that happens when the flow has ended."""
        self._resource.start(self._env.now, flow, size, weight)
        self._done[flow] = self._env.event()
        self._set_timer()
        return self._done[flow]

    def _set_timer(self) -> None:
        upcoming = self._resource.next_finish()
        if upcoming is None:
            return
        end_s, flow = upcoming
        change = self._resource.changes
        timer = self._env.timeout(max(0.0, end_s - self._env.now))
        timer.callbacks.append(lambda _: self._end(flow, change))

    def _end(self, flow: Flow, change: int) -> None:
        if change == self._resource.changes:
            self._resource.finish(self._env.now)
            self._done.pop(flow).succeed()
            self._set_timer()


class _SimpyWorker:
    """What one worker has for itself, by station, and the step it is in."""

    def __init__(self, env: simpy.Environment, graph: StepGraph, cores: _Shared) -> None:
        self.turns = [simpy.PriorityResource(env) for _ in graph.stations]
        self.cores = cores
        self.arrivals = count()
        self.waiting: list[int] = []
        self.unfinished = 0
        self.done = env.event()
        self.step: ProfiledStep
        self.weights: dict[Resource, float]


class _Model:
    """Algorithm 3.1 as processes: one per worker, and one per operation of its step."""

    def __init__(
        self, graph: StepGraph, steps: Sequence[ProfiledStep], options: SimulationOptions
    ) -> None:
        self.env = simpy.Environment()
        self.graph, self.steps, self.options = graph, steps, options
        shape = (options.workers, options.steps)
        random = np.random.default_rng(options.seed)
        self.sampled = random.integers(len(steps), size=shape).tolist()
        self.gaps_s = random.choice(np.array(options.client_gap_s), size=shape).tolist()
        self.weights = {
            Resource.DOWNLINK: random.lognormal(0.0, options.downlink_spread, shape).tolist(),
            Resource.UPLINK: random.lognormal(0.0, options.uplink_spread, shape).tolist(),
        }
        self.window_bytes = float("inf") if options.window_bytes is None else options.window_bytes
        self.links = [
            _Shared(
                self.env,
                SharedResource(
                    options.server_Bps(resource),
                    options.worker_Bps(resource),
                    NewcomerWeights(options.newcomer_weight, options.newcomer_pause_s),
                ),
            )
            for resource, _ in graph.stations
        ]
        self.workers = [
            _SimpyWorker(self.env, graph, _Shared(self.env, SharedResource(options.cores, 1.0)))
            for _ in range(options.workers)
        ]
        self.ends_s: list[list[float]] = [[] for _ in self.workers]
        self.chunks = 0

    def train(self, index: int) -> Process:
        """Do all steps of a worker."""
        worker = self.workers[index]
        for step in range(self.options.steps):
            worker.step = self.steps[self.sampled[index][step]]
            worker.weights = {link: drawn[index][step] for link, drawn in self.weights.items()}
            worker.waiting = list(self.graph.predecessors)
            worker.unfinished = len(worker.waiting)
            worker.done = self.env.event()
            for operation, predecessors in enumerate(self.graph.predecessors):
                if not predecessors:
                    self.env.process(self._release(index, operation))
            yield worker.done
            self.ends_s[index].append(self.env.now)
            yield self.env.timeout(self.gaps_s[index][step])

    def _release(self, index: int, operation: int) -> Process:
        yield self.env.timeout(self.workers[index].step.release_s[operation])
        yield self.env.process(self._operation(index, operation))

    def _operation(self, index: int, operation: int) -> Process:
        """Run an operation that waits for no other one, and start what waits for it alone."""
        worker, resource = self.workers[index], self.graph.resources[operation]
        flow = Flow(index, self.graph.station_of[operation], operation)
        seconds = worker.step.seconds[operation]
        self.chunks += 1
        if resource.is_link:
            yield from self._transfer(worker, flow)
        elif resource is Resource.PS:
            yield self.env.timeout(seconds)
        elif self.options.inter_op_threads > 1:
            yield worker.cores.use(flow, seconds, 1.0)
        else:
            with worker.turns[flow.station].request(worker.step.ranks[operation]) as turn:
                yield turn
                yield self.env.timeout(seconds)
        for target in self.graph.successors[operation]:
            worker.waiting[target] -= 1
            if not worker.waiting[target]:
                self.env.process(self._operation(index, target))
        worker.unfinished -= 1
        if not worker.unfinished:
            worker.done.succeed()

    def _transfer(self, worker: _SimpyWorker, flow: Flow) -> Process:
        """Send up to a window at the first turn and the rest at the second."""
        left_bytes: float = self.graph.sizes_bytes[flow.operation]
        weight = worker.weights[self.graph.stations[flow.station][0]]
        first_bytes = min(left_bytes, self.window_bytes)
        for size_bytes in (first_bytes, left_bytes - first_bytes):
            if size_bytes > 0:
                with worker.turns[flow.station].request(next(worker.arrivals)) as turn:
                    yield turn
                    yield self.links[flow.station].use(flow, size_bytes, weight)
        self.chunks += left_bytes > self.window_bytes
