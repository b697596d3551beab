"""How the kernel is compiled: once per machine, kept on disk, without Python's lock.

The kernel allocates nothing, so numba need not count references (`_nrt`); counting those of every
array that a function is given made it 40 times slower.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numba

F = TypeVar("F", bound=Callable[..., object])

_HERE = Path(__file__).parent
_numba: Any = numba


def _digest() -> str:
    """Return a hash of the kernel's sources: numba does not notice changes in inlined functions."""
    sources = b"".join(path.read_bytes() for path in sorted(_HERE.glob("*.py")))
    return hashlib.sha256(sources).hexdigest()[:16]


_numba.config.CACHE_DIR = str(_HERE / "__pycache__" / _digest())


def compiled(function: F) -> F:
    """Compile a function that Python calls."""
    made: F = _numba.njit(cache=True, nogil=True, error_model="numpy", _nrt=False)(function)
    return made


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
