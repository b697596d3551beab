"""Binary heaps of (time, code) in slices of an array: `base` is where one starts, `count` its size.

Whoever owns a heap keeps its count. Times are kept as their bits: see `NextEventFields`.
"""

import hashlib
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import llvmlite.binding
import numba
import numpy as np

from models import compiled as kept
from models.async_sgd.kernel.state import NextEventFields, Records, SimulationState

# How the kernel is compiled: once per machine, kept on disk, without Python's lock.
#
# The kernel allocates nothing, so numba need not count references (`_nrt`); counting those of every
# array that a function is given made it 40 times slower.


F = TypeVar("F", bound=Callable[..., object])
T = TypeVar("T", int, float)

_HERE = Path(__file__).parent
_numba: Any = numba


def _digest() -> str:
    """Return a hash of the kernel's sources: numba does not notice changes in inlined functions."""
    sources = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()[:16]


if platform.machine() == "x86_64":
    # Which of two events comes first is anybody's guess: LLVM has to choose without a branch.
    llvmlite.binding.set_option("", "-x86-cmov-converter=false")
_numba.config.CACHE_DIR = str(_HERE / "__pycache__" / _digest())


def compiled(function: F) -> F:
    """Compile a function that Python calls."""
    return kept.compiled(function, _nrt=False)


def inlined(function: F) -> F:
    """Compile a function that becomes part of those that call it."""
    made: F = _numba.njit(
        forceinline=True,
        error_model="numpy",
        _nrt=False,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )(function)
    return made


@inlined
def comes_first(time: T, code: int, other_time: T, other_code: int) -> bool:
    """Compare by time, then code; without branches, which could not be predicted."""
    return (time < other_time) | ((time == other_time) & (code < other_code))


@inlined
def bits_of(time: float) -> int:
    """Return the bits of a time as a whole number."""
    return int(np.float64(time).view(np.int64))


@inlined
def time_of(bits: int) -> float:
    """Return the time that has these bits."""
    return float(np.int64(bits).view(np.float64))


@inlined
def push(heap: Records[NextEventFields], base: int, count: int, time: float, code: int) -> None:
    """Add (time, code) to a heap of `count` pairs."""
    rise(heap, base, count, bits_of(time), code)


@inlined
def pop(heap: Records[NextEventFields], base: int, count: int) -> None:
    """Remove the first of `count` pairs.

    The hole it leaves sinks to the bottom; the last pair rises from there, mostly not far.
    """
    last = count - 1
    hole, right = 0, 2
    while right < last:
        left = heap[base + right - 1]
        other = heap[base + right]
        right -= comes_first(left.time_bits, left.code, other.time_bits, other.code)
        fill(heap, base + hole, base + right)
        hole = right
        right = 2 * hole + 2
    if right == last:
        fill(heap, base + hole, base + right - 1)
        hole = right - 1
    rise(heap, base, hole, heap[base + last].time_bits, heap[base + last].code)


@inlined
def fill(heap: Records[NextEventFields], hole: int, place: int) -> None:
    """Copy a pair to another place."""
    filled, source = heap[hole], heap[place]
    filled.time_bits, filled.code = source.time_bits, source.code


@inlined
def rise(heap: Records[NextEventFields], base: int, hole: int, time_bits: int, code: int) -> None:
    """Put a pair into a hole, or above it."""
    while hole > 0:
        parent = (hole - 1) >> 1
        above = heap[base + parent]
        if comes_first(above.time_bits, above.code, time_bits, code):
            break
        fill(heap, base + hole, base + parent)
        hole = parent
    event = heap[base + hole]
    event.time_bits, event.code = time_bits, code


# The first of the next events of all workers and shared resources: a tournament between leaves.


@inlined
def set_next(state: SimulationState, leaf: int, time_bits: int, code: int) -> None:
    """Let a leaf's next event be at a time, infinity if it has none: O(log leaves)."""
    place = (len(state.tournament) >> 1) + leaf
    event = state.tournament[place]
    event.time_bits, event.code = time_bits, code
    while place > 1:
        other = state.tournament[place ^ 1]
        if comes_first(other.time_bits, other.code, time_bits, code):
            time_bits, code = other.time_bits, other.code
        place >>= 1
        winner = state.tournament[place]
        winner.time_bits, winner.code = time_bits, code
