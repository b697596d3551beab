"""The first of the next events of all workers and shared resources: a tournament between leaves."""

from models.async_sgd.kernel.heaps import comes_first
from models.async_sgd.kernel.jit import inlined
from models.async_sgd.kernel.state import State


@inlined
def set_next(state: State, leaf: int, time_s: float, code: int) -> None:
    """Let a leaf's next event be at `time_s`, infinity if it has none: O(log leaves)."""
    mine = state.leaves[leaf]
    mine.time_s = time_s
    mine.code = code
    size = state.winner.size
    node = (leaf + size) >> 1
    while node >= size >> 1:
        state.winner[node] = first(state, 2 * node - size, 2 * node + 1 - size)
        node >>= 1
    while node > 0:
        state.winner[node] = first(state, state.winner[2 * node], state.winner[2 * node + 1])
        node >>= 1


@inlined
def first(state: State, one: int, two: int) -> int:
    """Return which of two leaves has the earlier event; ties go by code."""
    left, right = state.leaves[one], state.leaves[two]
    wins = comes_first(left.time_s, left.code, right.time_s, right.code)
    return one if wins else two
