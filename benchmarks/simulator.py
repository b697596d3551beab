"""How fast asynchronous SGD is simulated, beside the same model in SimPy.

Every part runs in a process of its own, on one core. An event is one completed chunk; compiling,
which happens once per machine, is not timed.
"""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from benchmarks.child import best_of, run, seconds
from benchmarks.inception import LAYERS, inception
from models.async_sgd.contraction import contract
from models.async_sgd.simulator import simulate
from models.async_sgd.workers import SimulationOptions

THREADS = 4


@dataclass(frozen=True)
class SimulatorReport:
    """Figures of one benchmark.

    `inception_w2_10_s` is for W = 2 to 10, one after the other, of merged chains; `peak_mb` is the
    memory of a process that simulates a thousand workers.
    """

    events_per_s: float
    simpy_events_per_s: float
    ratio_to_simpy: float
    inception_w2_10_s: float
    peak_mb: float

    def to_dict(self) -> dict[str, float]:
        """Return the figures by key."""
        return asdict(self)


@dataclass(frozen=True)
class Size:
    """How much to simulate: layers of the network, steps of each worker."""

    layers: int = LAYERS
    steps: int = 1000
    compiled_steps: int = 400
    python_steps: int = 3
    workers: int = 10
    many_workers: int = 1000
    many_workers_steps: int = 4


def measure(
    size: Size | None = None, progress: Callable[[str], None] = lambda _: None
) -> SimulatorReport:
    """Measure a job of Inception-v3's size, or of another one."""
    size = size or Size()
    events = len(inception(size.layers, 1)[0].names) * size.workers
    progress(f"{events / size.workers:,.0f} operations a step, {size.workers} workers: compiled")
    fast = run(compiled, size.layers, size.workers, size.compiled_steps)
    progress("the same in SimPy")
    peer = run(in_simpy, size.layers, size.workers, size.python_steps)
    progress(f"2 to {size.workers} workers, {size.steps} steps each")
    all_sizes = run(merged, size.layers, size.workers, size.steps)
    progress(f"{size.many_workers} workers")
    many = run(many_workers, size.layers, size.many_workers, size.many_workers_steps)
    return SimulatorReport(
        events_per_s=events * size.compiled_steps / fast.seconds,
        simpy_events_per_s=events * size.python_steps / peer.seconds,
        ratio_to_simpy=peer.seconds / fast.seconds * size.compiled_steps / size.python_steps,
        inception_w2_10_s=all_sizes.seconds,
        peak_mb=many.peak_mb,
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


def merged(layers: int, workers: int, steps: int) -> float:
    """Return the seconds that 2 to `workers` workers take, merging included; called in a child."""
    graph, profiled = inception(layers)
    simulate(graph, profiled, options(1, 1))

    def simulate_all() -> None:
        fewer = contract(graph, profiled, THREADS)
        for count in range(2, workers + 1):
            simulate(*fewer, options(count, steps))

    return seconds(simulate_all)


def many_workers(layers: int, workers: int, steps: int) -> float:
    """Return the seconds of the compiled simulator; called in a child for its memory."""
    graph, profiled = inception(layers)
    return seconds(lambda: simulate(graph, profiled, options(workers, steps)))
