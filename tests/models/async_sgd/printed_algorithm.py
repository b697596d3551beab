"""Algorithm 3.1 of Li et al. (ICPE 2020), line by line, with its faults mended.

Comments give the printed line numbers. What is mended, as lab/async_sgd.md letters the faults: a,
active[DOWNLINK] is raised when a step starts; b, running chunks count as well as queued ones (a
server, which the model does not limit, never makes an operation wait); c, a step starts with all
its roots. It is a second, slower implementation of the model with one inter-op thread, which the
simulator must agree with.

Line 35 is read as part of the `else` of line 32, the reading under which a step ends later.
"""

from dataclasses import dataclass

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from tests.models.async_sgd.oracle.simulator import ComputationQueue
from tests.models.async_sgd.oracle.streams import StreamScheduler

LINKS = (Resource.DOWNLINK, Resource.UPLINK)


@dataclass
class RunningChunk:
    """A chunk in Q; `remaining` is seconds at full speed."""

    worker: int
    res: Resource
    main_op: int
    is_last: bool
    remaining: float
    started_s: float


@dataclass(frozen=True)
class Executed:
    """What `trace.add` records, with start and end instead of a duration."""

    worker: int
    res: Resource
    operation: int
    start_s: float
    end_s: float


class PrintedAlgorithm:
    """GenerateTrace(S, W) for one profiled step and one speed of both links."""

    def __init__(
        self,
        graph: StepGraph,
        step: ProfiledStep,
        *,
        workers: int,
        n: int,
        speed_Bps: float,
        window_bytes: float | None = None,
    ) -> None:
        self.graph, self.step, self.workers, self.n = graph, step, workers, n
        self.speed_Bps, self.window_bytes = speed_Bps, window_bytes
        self.predecessors: list[set[int]] = [set() for _ in graph.names]
        for source, targets in enumerate(graph.successors):
            for target in targets:
                self.predecessors[target].add(source)
        self.now_s = 0.0
        self.q: list[RunningChunk] = []  # 1
        self.waiting_for: list[list[set[int]]] = [[] for _ in range(workers)]
        self.trace: list[Executed] = []  # 7
        self.step_ends_s: list[list[float]] = [[] for _ in range(workers)]  # 3, with times
        self.scheduler: dict[tuple[int, Resource], StreamScheduler | ComputationQueue] = {}
        self.active = {Resource.DOWNLINK: 0, Resource.UPLINK: 0}  # 8, a
        for w in range(workers):  # 2
            for r in Resource:  # 4
                self.scheduler[w, r] = (  # 5
                    StreamScheduler(window_bytes) if r in LINKS else ComputationQueue()
                )
            self.start_random_step(w)  # 6

    def share(self, r: Resource) -> float:
        if r in LINKS:
            return 1 / self.active[r]
        return 1.0

    def start_random_step(self, w: int) -> None:
        self.waiting_for[w] = [set(waiting) for waiting in self.predecessors]
        for op, waiting in enumerate(self.waiting_for[w]):  # 2 to 6, c
            if not waiting:
                self.add_or_start(w, op)

    def generate_trace(self) -> None:
        while self.q:  # 9
            self.q.sort(  # 10
                key=lambda x: (x.remaining / self.share(x.res), x.worker, x.res, x.main_op)
            )
            chunk = self.q.pop(0)  # 11
            w, r = chunk.worker, chunk.res  # 12
            duration_s = chunk.remaining / self.share(r)  # 13
            self.now_s += duration_s
            self.trace.append(Executed(w, r, chunk.main_op, chunk.started_s, self.now_s))  # 15
            for x in self.q:  # 16
                x.remaining -= duration_s * self.share(x.res)  # 17
            if chunk.is_last:  # 18
                for d in self.graph.successors[chunk.main_op]:  # 20
                    self.waiting_for[w][d].remove(chunk.main_op)  # 21
                    if not self.waiting_for[w][d]:  # 22
                        # b: what runs on r next is chosen at line 30.
                        self.add_or_start(w, d, freed=r)
            if self.scheduler[w, r]:  # 30
                self.remove_chunk(w, r)  # 31
            else:
                if r in LINKS:  # 33
                    self.active[r] -= 1  # 34
                if not any(self.busy(w, i) for i in Resource):  # 35
                    self.step_ends_s[w].append(self.now_s)  # 36
                    if len(self.step_ends_s[w]) < self.n:  # 37
                        self.start_random_step(w)  # 38

    def busy(self, w: int, r: Resource) -> bool:
        """Scheduler[w, r] is not empty or, b, anything of w runs on r."""
        running = any(x.worker == w and x.res == r for x in self.q)
        return bool(self.scheduler[w, r]) or running

    def add_or_start(self, w: int, d: int, freed: Resource | None = None) -> None:
        res = self.graph.resources[d]
        idle = res == Resource.PS or not (self.busy(w, res) or res == freed)  # 23, b
        scheduler = self.scheduler[w, res]
        if isinstance(scheduler, StreamScheduler):  # 24, 28
            scheduler.add(d, self.graph.sizes_bytes[d])
        else:
            scheduler.add(d, self.step.seconds[d], self.step.ranks[d])
        if idle:
            if res in LINKS:
                self.active[res] += 1  # 26, 27
            self.remove_chunk(w, res)  # 29

    def remove_chunk(self, w: int, r: Resource) -> None:
        chunk = self.scheduler[w, r].next_chunk()
        remaining = chunk.size / self.speed_Bps if r in LINKS else chunk.size
        self.q.append(RunningChunk(w, r, chunk.operation, chunk.last, remaining, self.now_s))
