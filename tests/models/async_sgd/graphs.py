"""Small jobs with figures a reader can check by hand, and random ones."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from models.async_sgd.graph import ProfiledStep, Resource, StepGraph
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import SimulationOptions
from tests.models.async_sgd.oracle.simulator import simulate

D, W, U, P = Resource.DOWNLINK, Resource.WORKER, Resource.UPLINK, Resource.PS
SPEED_BPS = 10.0


@dataclass(frozen=True)
class Op:
    """An operation: `amount` is seconds, or bytes of a transfer; `after` are indices."""

    resource: Resource
    amount: float
    after: tuple[int, ...] = ()


def job(*ops: Op) -> tuple[StepGraph, ProfiledStep]:
    """Return the graph of these operations and one step, started in the order given."""
    graph = StepGraph(
        names=tuple(f"{op.resource.name.lower()}{i}" for i, op in enumerate(ops)),
        resources=tuple(op.resource for op in ops),
        servers=(0,) * len(ops),
        sizes_bytes=tuple(int(op.amount) if op.resource.is_link else 0 for op in ops),
        successors=tuple(
            tuple(j for j, other in enumerate(ops) if i in other.after) for i in range(len(ops))
        ),
    )
    return graph, step(*(0.0 if op.resource.is_link else float(op.amount) for op in ops))


def step(
    *seconds: float, order: Sequence[int] = (), release_s: Sequence[float] = ()
) -> ProfiledStep:
    """Return a step, started in the order of the indices and at once unless told otherwise."""
    return ProfiledStep(
        seconds,
        tuple(order) or tuple(range(len(seconds))),
        tuple(release_s) or (0.0,) * len(seconds),
    )


def options(workers: int = 1, steps: int = 1, **changes: object) -> SimulationOptions:
    """Return options with links of 10 bytes/s."""
    defaults = {"downlink_Bps": SPEED_BPS, "uplink_Bps": SPEED_BPS}
    return SimulationOptions(workers=workers, steps=steps, **{**defaults, **changes})  # type: ignore[arg-type]


def run(*ops: Op, workers: int = 1, steps: int = 1, **changes: object) -> Trace:
    """Simulate a job of these operations."""
    graph, profiled = job(*ops)
    return simulate(graph, [profiled], options(workers, steps, **changes))


def random_ops(seed: int, count: int) -> list[Op]:
    """Return operations of unequal amounts, so that no two of a worker's events coincide."""
    source = random.Random(seed)
    ops = []
    for index in range(count):
        resource = source.choice((D, W, W, U, P))
        amount = source.randint(3, 997) if resource.is_link else source.uniform(0.1, 30.0)
        after = tuple(i for i in range(max(0, index - 6), index) if source.random() < 0.3)
        ops.append(Op(resource, amount, after))
    return ops
