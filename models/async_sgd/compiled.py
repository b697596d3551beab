"""The simulator of `models.async_sgd.simulator`, compiled: the same traces, far sooner."""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from models.async_sgd.graph import Graph, ProfiledStep
from models.async_sgd.options import Options
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import Workers, check


def simulate(graph: Graph, steps: Sequence[ProfiledStep], options: Options) -> Trace:
    """Return what `models.async_sgd.simulator.simulate` returns.

    The first call on a machine compiles the kernel, which is kept on disk.

    Raises:
        BadInput: no steps, or steps, ranks or servers that do not fit the graph.
    """
    return simulate_together([Workers(graph, steps, options)])


def simulate_together(groups: Sequence[Workers]) -> Trace:
    """Return what `models.async_sgd.simulator.simulate_together` returns.

    Raises:
        BadInput: as `simulate`, or options that the groups need to agree in.
    """
    from models.async_sgd.kernel.layout import lay_out, trace_of
    from models.async_sgd.kernel.loop import generate_trace

    check(groups)
    job, state = lay_out(groups)
    generate_trace(job, state)
    return trace_of(groups, job, state)


def simulate_all(simulations: Iterable[Sequence[Workers]]) -> list[Trace]:
    """Run simulations on all cores, in threads: the kernel does without Python's lock.

    Raises:
        BadInput: as `simulate_together`.
    """
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(simulate_together, simulations))
