"""The simulator of `models.async_sgd.simulator`, compiled: the same traces, far sooner."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from models.async_sgd.graph import Graph, ProfiledStep
from models.async_sgd.options import Options
from models.async_sgd.simulator import check
from models.async_sgd.synthetic_trace import Trace


class Run(NamedTuple):
    """What one simulation is given."""

    graph: Graph
    steps: Sequence[ProfiledStep]
    options: Options


def simulate(graph: Graph, steps: Sequence[ProfiledStep], options: Options) -> Trace:
    """Return what `models.async_sgd.simulator.simulate` returns.

    The first call on a machine compiles the kernel, which is kept on disk.

    Raises:
        BadInput: no steps, or steps, ranks or servers that do not fit the graph.
    """
    from models.async_sgd.kernel.layout import lay_out, trace_of
    from models.async_sgd.kernel.loop import generate_trace

    check(graph, steps, options)
    job, state = lay_out(graph, steps, options)
    generate_trace(job, state)
    return trace_of(graph, job, state)


def simulate_all(runs: Iterable[Run]) -> list[Trace]:
    """Simulate on all cores, in threads: the kernel does without Python's lock.

    Raises:
        BadInput: as `simulate`.
    """
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(lambda run: simulate(*run), runs))
