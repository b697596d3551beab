"""How many threads compute."""

from collections.abc import Iterator
from contextlib import contextmanager

from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread: on a busy host, several on small matrices take fifty times as long."""
    with threadpool_limits(1):
        yield
