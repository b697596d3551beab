"""How fast asynchronous SGD is simulated, beside the same model in SimPy.

Every part runs in a process of its own, on one core. An event is one completed chunk; compiling,
which happens once per machine, is not timed.
"""

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from benchmarks.child import best_of, run, seconds
from benchmarks.contract import Benchmark, Figure, Outcome, Say, tabulated
from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.simulator import simulate
from models.async_sgd.workers import SimulationOptions

THREADS = 4
LAYERS = 95


@dataclass(frozen=True)
class Size:
    """How much to simulate: layers of the network, steps of each worker."""

    layers: int = LAYERS
    steps: int = 1000
    compiled_steps: int = 400
    simpy_steps: int = 3
    workers: int = 10
    many_workers: int = 1000
    many_workers_steps: int = 4


def measure(sizes: Mapping[str, int], progress: Say) -> Outcome:
    """Measure a job of Inception-v3's size, or of another one."""
    size = Size(**sizes)
    events = len(inception(size.layers, 1)[0].names) * size.workers
    progress(f"{events / size.workers:,.0f} operations a step, {size.workers} workers: compiled")
    fast = run(compiled, size.layers, size.workers, size.compiled_steps)
    progress("the same in SimPy")
    peer = run(in_simpy, size.layers, size.workers, size.simpy_steps)
    progress(f"2 to {size.workers} workers, {size.steps} steps each")
    all_sizes = run(all_sizes_s, size.layers, size.workers, size.steps)
    progress(f"{size.many_workers} workers")
    many = run(many_workers, size.layers, size.many_workers, size.many_workers_steps)
    per_s = events * size.compiled_steps / fast.seconds
    simpy_per_s = events * size.simpy_steps / peer.seconds
    return tabulated(
        Figure("compiled", per_s, "events/s", per_s / simpy_per_s, "SimPy"),
        Figure("SimPy", simpy_per_s, "events/s"),
        Figure(f"2 to {size.workers} workers, {size.steps:,} steps each", all_sizes.seconds, "s"),
        Figure(f"peak memory, {size.many_workers:,} workers", many.peak_mb, "MB"),
    )


def options(workers: int, steps: int) -> SimulationOptions:
    """Return options as predictions have them: links of 10 Gb/s, shared by unequal weights."""
    return SimulationOptions(
        workers=workers,
        steps=steps,
        downlink_Bps=1.1e9,
        uplink_Bps=1.1e9,
        downlink_spread=0.1,
        uplink_spread=0.1,
        newcomer_weight=0.8,
        newcomer_pause_s=0.2,
        inter_op_threads=THREADS,
        client_gap_s=(0.005,),
    )


def compiled(layers: int, workers: int, steps: int) -> float:
    """Return the seconds of the compiled simulator, the best of three; called in a child."""
    graph, profiled = inception(layers)
    simulate(graph, profiled, options(1, 1))
    return best_of(3, lambda: simulate(graph, profiled, options(workers, steps)))


def in_simpy(layers: int, workers: int, steps: int) -> float:
    """Return the seconds of SimPy, the best of two; called in a child."""
    from benchmarks.simpy_model import simulate

    graph, profiled = inception(layers)
    return best_of(2, lambda: simulate(graph, profiled, options(workers, steps)))


def all_sizes_s(layers: int, workers: int, steps: int) -> float:
    """Return the seconds that jobs of 2 to `workers` workers take; called in a child."""
    graph, profiled = inception(layers)
    simulate(graph, profiled, options(1, 1))

    def simulate_all() -> None:
        for count in range(2, workers + 1):
            simulate(graph, profiled, options(count, steps))

    return seconds(simulate_all)


def many_workers(layers: int, workers: int, steps: int) -> float:
    """Return the seconds of the compiled simulator; called in a child for its memory."""
    graph, profiled = inception(layers)
    return seconds(lambda: simulate(graph, profiled, options(workers, steps)))


# A made-up job of Inception-v3's size: what is simulated.


_MEAN_BYTES = 1_000_000
_FORWARD, _BACKWARD = 7, 10
_WORKER_S, _SERVER_S, _PARSING_S = 0.9e-3, 20e-6, 50e-6


@dataclass
class _Made:
    resources: list[Resource] = field(default_factory=list)
    sizes_bytes: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    successors: list[list[int]] = field(default_factory=list)

    def add(self, resource: Resource, amount: float, *after: int) -> int:
        """Append an operation of so many seconds, or bytes, and return its number."""
        self.resources.append(resource)
        self.sizes_bytes.append(int(amount) if resource.is_link else 0)
        self.seconds.append(0.0 if resource.is_link else amount)
        self.successors.append([])
        for operation in after:
            self.successors[operation].append(len(self.resources) - 1)
        return len(self.resources) - 1


def inception(layers: int = LAYERS, steps: int = 20) -> tuple[StepGraph, list[ProfiledStep]]:
    """Return a graph of 33 operations per layer and steps whose times differ by a tenth.

    Every layer has weights and biases, 95 MB in all for the 95 layers of Inception-v3. Each is read
    at the server, sent, parsed and used; its gradient is sent, parsed and applied. Four branches
    of layers join every eighth layer.
    """
    source = random.Random(3)
    made = _Made()
    received = [_received(made, source) for _ in range(layers)]
    outputs: list[int] = []
    for layer in range(layers):
        inputs = outputs[-4:] if layer % 8 == 0 else outputs[-4:][:1]
        outputs.append(_computed(made, source, _FORWARD, *inputs, *received[layer]))
    gradient = outputs[-1]
    for layer in reversed(range(layers)):
        gradient = _computed(made, source, _BACKWARD, gradient, outputs[layer])
        for size in (made.sizes_bytes[received[layer][0] - 1], 2048):
            sent = made.add(Resource.UPLINK, size, gradient)
            parsed = made.add(Resource.PS, _PARSING_S * source.uniform(0.5, 1.5), sent)
            made.add(Resource.PS, _SERVER_S * source.uniform(0.5, 1.5), parsed)
    count = len(made.resources)
    graph = StepGraph(
        names=tuple(f"operation{i}" for i in range(count)),
        resources=tuple(made.resources),
        servers=(0,) * count,
        sizes_bytes=tuple(made.sizes_bytes),
        successors=tuple(map(tuple, made.successors)),
    )
    return graph, [_step(made.seconds, random.Random(seed)) for seed in range(steps)]


def _received(made: _Made, source: random.Random) -> tuple[int, int]:
    """Append a layer's weights and biases on their way to the worker."""
    weights_bytes = _MEAN_BYTES * source.uniform(0.1, 1.9)
    weights, biases = (_parameter(made, source, size) for size in (weights_bytes, 2048))
    return weights, biases


def _parameter(made: _Made, source: random.Random, size_bytes: float) -> int:
    last: tuple[int, ...] = ()
    for _ in range(3):
        last = (made.add(Resource.PS, _SERVER_S * source.uniform(0.5, 1.5), *last),)
    sent = made.add(Resource.DOWNLINK, size_bytes, *last)
    return made.add(Resource.WORKER, _PARSING_S * source.uniform(0.5, 1.5), sent)


def _computed(made: _Made, source: random.Random, count: int, *after: int) -> int:
    """Append a chain of computations and one of two beside it."""
    first = made.add(Resource.WORKER, _WORKER_S * source.uniform(0.1, 1.9), *after)
    beside = made.add(Resource.WORKER, _WORKER_S * source.uniform(0.1, 1.9), first)
    last = first
    for _ in range(count - 3):
        last = made.add(Resource.WORKER, _WORKER_S * source.uniform(0.1, 1.9), last)
    return made.add(Resource.WORKER, _WORKER_S * source.uniform(0.1, 1.9), last, beside)


def _step(seconds: list[float], source: random.Random) -> ProfiledStep:
    varied = tuple(step_s * source.uniform(0.9, 1.1) for step_s in seconds)
    return ProfiledStep(varied, tuple(range(len(varied))), (0.0,) * len(varied))


BENCHMARK = Benchmark(
    "How fast asynchronous SGD is simulated, beside the same model in SimPy.",
    "The job has Inception-v3's size; less than a minute, more where it has to be compiled.",
    measure,
    asdict(Size()),
)
