"""Which questions are answered now, which wait, and which are told when to ask again."""

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from math import ceil
from threading import Semaphore, Thread

from starlette.exceptions import HTTPException

from pipelines.service.contracts import Answer
from warehouse import limits

FORECASTING = "forecasting"
"""What threads that forecast are called."""


class Admission:
    """Makes few forecasts at once, and lets as many more wait as can be answered soon.

    Each is made in a thread that holds up no end of the process: one that fits may take minutes.

    Args:
        at_once: how many are made at once.
    """

    def __init__(self, at_once: int = 4) -> None:
        self._turns, self._asked, self._latest_s = Semaphore(at_once), 0, 1.0

    async def run(self, call: Callable[[], Answer]) -> Answer:
        """Return what a call returns, made in a thread.

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
        answer: Future[Answer] = Future()

        def make() -> None:
            with self._turns:
                if not answer.set_running_or_notify_cancel():
                    return
                try:
                    answer.set_result(call())
                except Exception as error:
                    answer.set_exception(error)

        self._asked += 1
        began_s = time.monotonic()
        try:
            Thread(target=make, name=FORECASTING, daemon=True).start()
            return await asyncio.wrap_future(answer)
        finally:
            self._asked -= 1
            self._latest_s = time.monotonic() - began_s
