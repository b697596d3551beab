"""A thread that runs beside a block, and ends with it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread


@contextmanager
def beside(run: Callable[[Event], None], name: str) -> Iterator[None]:
    """Run something in a thread of that name while the block runs; it is told when to end."""
    stopped = Event()
    thread = Thread(target=run, args=(stopped,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()
