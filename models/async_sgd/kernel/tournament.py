"""The first of the next events of all workers and shared resources: a tournament between leaves."""

from models.async_sgd.kernel.heaps import comes_first
from models.async_sgd.kernel.jit import inlined
from models.async_sgd.kernel.state import State


@inlined
def set_next(state: State, leaf: int, time_s: float, code: int) -> None:
    """Let a leaf's next event be at `time_s`, infinity if it has none: O(log leaves)."""
    place = (len(state.tournament) >> 1) + leaf
    mine = state.tournament[place]
    mine.time_s, mine.code = time_s, code
    while place > 1:
        other = state.tournament[place ^ 1]
        if comes_first(other.time_s, other.code, time_s, code):
            time_s, code = other.time_s, other.code
        place >>= 1
        winner = state.tournament[place]
        winner.time_s, winner.code = time_s, code
