"""The simulator of `models.async_sgd.simulator`, compiled: the same traces, far sooner."""

from collections.abc import Sequence

from models.async_sgd.graph import Graph, ProfiledStep
from models.async_sgd.options import Options
from models.async_sgd.simulator import check
from models.async_sgd.synthetic_trace import Trace


def simulate(graph: Graph, steps: Sequence[ProfiledStep], options: Options) -> Trace:
    """Return what `models.async_sgd.simulator.simulate` returns.

    The first call on a machine compiles the kernel, which is kept on disk.

    Raises:
        BadInput: no steps, or steps or ranks that do not fit the graph.
    """
    from models.async_sgd.kernel.layout import lay_out, trace_of
    from models.async_sgd.kernel.loop import generate_trace

    check(graph, steps, options)
    job, state = lay_out(graph, steps, options)
    generate_trace(job, state)
    return trace_of(graph, job, state)
