"""Binary heaps of (time, code) in slices of an array: `base` is where one starts, `count` its size.

Whoever owns a heap keeps its count.
"""

from models.async_sgd.kernel.jit import inlined
from models.async_sgd.kernel.state import Next, Records


@inlined
def comes_first(time: float, code: int, other_time: float, other_code: int) -> bool:
    """Compare by time, then code; without branches, which could not be predicted."""
    return (time < other_time) | ((time == other_time) & (code < other_code))


@inlined
def push(heap: Records[Next], base: int, count: int, time: float, code: int) -> None:
    """Add (time, code) to a heap of `count` pairs."""
    rise(heap, base, count, time, code)


@inlined
def pop(heap: Records[Next], base: int, count: int) -> None:
    """Remove the first of `count` pairs.

    The hole it leaves sinks to the bottom; the last pair rises from there, mostly not far.
    """
    last = count - 1
    hole, right = 0, 2
    while right < last:
        left = heap[base + right - 1]
        other = heap[base + right]
        right -= comes_first(left.time_s, left.code, other.time_s, other.code)
        fill(heap, base + hole, base + right)
        hole = right
        right = 2 * hole + 2
    if right == last:
        fill(heap, base + hole, base + right - 1)
        hole = right - 1
    rise(heap, base, hole, heap[base + last].time_s, heap[base + last].code)


@inlined
def fill(heap: Records[Next], hole: int, place: int) -> None:
    """Copy a pair to another place."""
    filled, one = heap[hole], heap[place]
    filled.time_s, filled.code = one.time_s, one.code


@inlined
def rise(heap: Records[Next], base: int, hole: int, time: float, code: int) -> None:
    """Put (time, code) into a hole, or above it."""
    while hole > 0:
        parent = (hole - 1) >> 1
        above = heap[base + parent]
        if comes_first(above.time_s, above.code, time, code):
            break
        fill(heap, base + hole, base + parent)
        hole = parent
    one = heap[base + hole]
    one.time_s, one.code = time, code
