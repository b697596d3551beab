"""Binary heaps of (time, code) in slices of arrays: `base` is where one starts, `count` its size.

Whoever owns a heap keeps its count.
"""

from models.async_sgd.kernel.jit import inlined
from models.async_sgd.kernel.state import Floats, Ints


@inlined
def comes_first(time: float, code: int, other_time: float, other_code: int) -> bool:
    """Compare by time, then code."""
    return time < other_time or (time == other_time and code < other_code)


@inlined
def push(times: Floats, codes: Ints, base: int, count: int, time: float, code: int) -> None:
    """Add (time, code) to a heap of `count` pairs."""
    hole = count
    while hole > 0:
        parent = (hole - 1) >> 1
        other_time, other_code = times[base + parent], codes[base + parent]
        if comes_first(other_time, other_code, time, code):
            break
        times[base + hole] = other_time
        codes[base + hole] = other_code
        hole = parent
    times[base + hole] = time
    codes[base + hole] = code


@inlined
def pop(times: Floats, codes: Ints, base: int, count: int) -> None:
    """Remove the first of `count` pairs."""
    last = count - 1
    time, code = times[base + last], codes[base + last]
    hole = 0
    child = 1
    while child < last:
        if child + 1 < last and comes_first(
            times[base + child + 1],
            codes[base + child + 1],
            times[base + child],
            codes[base + child],
        ):
            child += 1
        other_time, other_code = times[base + child], codes[base + child]
        if comes_first(time, code, other_time, other_code):
            break
        times[base + hole] = other_time
        codes[base + hole] = other_code
        hole = child
        child = 2 * hole + 1
    times[base + hole] = time
    codes[base + hole] = code
