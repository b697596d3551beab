"""Threads that forecast: few, beside those that take what nodes tell, and no end waits for them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TypeVar

_COUNT = 4
Result = TypeVar("Result")


class Slots:
    """Threads that do what they are asked for; more than they can do waits for its turn.

    They are daemons, as those of Python's own pools are not: one that fits for minutes keeps no
    process alive that ends.

    Args:
        count: of the threads.
    """

    def __init__(self, count: int = _COUNT) -> None:
        self._count, self._lock, self._busy = count, Lock(), 0
        self._asked: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._threads: list[Thread] = []

    @property
    def is_busy(self) -> bool:
        """Whether one of them does something now."""
        with self._lock:
            return self._busy > 0

    async def run(self, call: Callable[[], Result]) -> Result:
        """Return what a call returns in one of the threads, or raise what it raises."""
        done: Future[Result] = Future()

        def job() -> None:
            if not done.set_running_or_notify_cancel():
                return
            try:
                done.set_result(call())
            except Exception as error:
                done.set_exception(error)

        with self._lock:
            if len(self._threads) < self._count:
                self._threads.append(Thread(target=self._work, name="forecasts", daemon=True))
                self._threads[-1].start()
        self._asked.put(job)
        return await asyncio.wrap_future(done)

    def _work(self) -> None:
        while True:
            job = self._asked.get()
            with self._lock:
                self._busy += 1
            job()
            with self._lock:
                self._busy -= 1
