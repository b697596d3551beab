"""Synthetic traces of asynchronous SGD with any number of workers (Algorithm 3.1), compiled.

Source: Li et al., "Throughput Prediction of Asynchronous SGD in TensorFlow", ICPE 2020, section
3.4; lab/async_sgd.md names the four faults of the printed algorithm that are mended here. The
same in plain Python, to be read, is the oracle of the tests (tests/models/async_sgd/oracle).
"""

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from models.async_sgd.graph import ProfiledStep, StepGraph
from models.async_sgd.synthetic_trace import Trace
from models.async_sgd.workers import SimulationOptions, Workers


def simulate(graph: StepGraph, steps: Sequence[ProfiledStep], options: SimulationOptions) -> Trace:
    """Run the discrete-event simulation; equal arguments give equal traces.

    Steps are sampled with replacement from `steps`. Simultaneous events are handled by worker,
    resource, operation. The first call on a machine compiles the kernel, which is kept on disk.
    """
    return simulate_together([Workers(graph, steps, options)])


def simulate_together(groups: Sequence[Workers]) -> Trace:
    """Run the simulation of groups of workers that differ, on the same servers."""
    from models.async_sgd.kernel.layout import lay_out, trace_of
    from models.async_sgd.kernel.loop import generate_trace

    job, state = lay_out(groups)
    generate_trace(job, state)
    return trace_of(groups, job, state)


def simulate_all(simulations: Iterable[Sequence[Workers]]) -> list[Trace]:
    """Run simulations on all cores, in threads: the kernel does without Python's lock."""
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as pool:
        return list(pool.map(simulate_together, simulations))
