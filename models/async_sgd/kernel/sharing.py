"""Sharing by weight in virtual time: the work that a flow of weight 1 had so far.

The arithmetic is that of `models.async_sgd.sharing`, operation by operation.
"""

from models.async_sgd.kernel.heaps import pop, push
from models.async_sgd.kernel.jit import inlined
from models.async_sgd.kernel.state import Row, State


@inlined
def start_flow(state: State, row: Row, now_s: float, code: int, work: float, weight: float) -> None:
    """Let an operation begin a flow: O(log flows)."""
    if row.flows:
        row.virtual += (now_s - row.as_of_s) * row.speed
    row.as_of_s = now_s
    end = row.virtual + work / weight
    push(state.heap, row.flows_at, row.flows, end, code)
    row.flows += 1
    row.weights += weight


@inlined
def finish_flow(state: State, row: Row, now_s: float, weight: float) -> None:
    """Remove the flow that ends first, at the time it does."""
    end = state.heap[row.flows_at].time_s
    pop(state.heap, row.flows_at, row.flows)
    row.flows -= 1
    row.virtual = end if row.flows else 0.0
    row.weights = row.weights - weight if row.flows else 0.0
    row.as_of_s = now_s


@inlined
def next_end_s(state: State, row: Row) -> float:
    """Return when the first flow ends if nothing changes, infinity if there is none.

    Every event ends with this for the rows it changed, so that is early enough to set their speed.
    """
    if not row.flows:
        return float("inf")
    row.speed = min(row.capacity / row.weights, row.cap)
    left = max(0.0, state.heap[row.flows_at].time_s - row.virtual)
    return row.as_of_s + float(left / row.speed)
