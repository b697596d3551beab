"""Which questions are answered now, which wait, and which are told when to ask again."""

import asyncio
import ctypes
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from math import ceil
from threading import Lock, Thread
from typing import TypeVar

from starlette.exceptions import HTTPException

from warehouse import limits

FORECASTING = "forecasting"
"""What threads that forecast are called."""
_ON_ITS_WAY_S = 0.1
"""How long a thread waits for the exception that ends it."""
T = TypeVar("T")


class AskerLeft(BaseException):
    """Whoever asked has gone: nobody waits for the answer that a thread makes."""


class Admission:
    """Makes few forecasts at once, and lets as many more wait as can be answered soon.

    Each is made in a thread that holds up no end of the process: one that fits may take minutes.

    Args:
        at_once: how many are made at once.
    """

    def __init__(self, at_once: int = 4) -> None:
        self._turns, self._asked, self._latest_s = asyncio.Semaphore(at_once), 0, 1.0

    async def run(self, call: Callable[[], T]) -> T:
        """Return what a call returns, made in a thread; cancelling it stops the call.

        Raises:
            HTTPException: 503: too many wait; again after as long as the latest answer took.
        """
        if self._asked >= limits.QUESTIONS:
            again_s = ceil(self._latest_s)
            raise HTTPException(
                503,
                f"{limits.QUESTIONS} questions are answered or wait; ask again in {again_s} s",
                {"Retry-After": f"{again_s}"},
            )
        self._asked += 1
        began_s = time.monotonic()
        try:
            await self._turns.acquire()
            return await self._made(call)
        finally:
            self._asked -= 1
            self._latest_s = time.monotonic() - began_s

    async def _made(self, call: Callable[[], T]) -> T:
        answer, loop = Future[T](), asyncio.get_running_loop()
        ending = Lock()  # held by who ends the call: it itself, or who no longer waits for it

        def make() -> None:
            try:
                made = call()
                if not ending.acquire(blocking=False):
                    # `AskerLeft` comes meanwhile, unless a callback of C has swallowed it.
                    time.sleep(_ON_ITS_WAY_S)
                answer.set_result(made)
            except BaseException as error:
                answer.set_exception(error)
            finally:
                with suppress(RuntimeError):  # the service has ended meanwhile
                    loop.call_soon_threadsafe(self._turns.release)

        answer.set_running_or_notify_cancel()
        thread = Thread(target=make, name=FORECASTING, daemon=True)
        thread.start()
        try:
            return await asyncio.wrap_future(answer)
        except asyncio.CancelledError:
            if ending.acquire(blocking=False):
                _end(thread)
            raise


def _end(thread: Thread) -> None:
    """Raise `AskerLeft` in a thread: child processes that it waits for end with their blocks."""
    if thread.ident is not None:
        ident, raised = ctypes.c_ulong(thread.ident), ctypes.py_object(AskerLeft)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, raised)
