"""Functions that numba compiles once for all processes, and again where it kept damaged code."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba.core import caching

F = TypeVar("F", bound=Callable[..., object])
_numba: Any = numba
_caching: Any = caching


def compiled(function: F, **options: bool) -> F:
    """Compile a function that Python calls; `options` are numba's beside those of all."""
    made = _numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    kept = made._cache = _caching.FunctionCache(function)  # noqa: SLF001  there is no other way
    load = kept.load_overload

    def load_whole(signature: object, target_context: object) -> object:
        try:
            return load(signature, target_context)
        except Exception:  # whatever reading a file raises of which a crash left a part
            kept.flush()
            return None  # as where none was kept

    kept.load_overload = load_whole
    return cast(F, made)
