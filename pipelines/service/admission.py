"""Answers that take long: which are made now, which wait; progress, and an end with its asker."""

import asyncio
import ctypes
import json
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from logging import getLogger
from math import ceil
from threading import Lock, Thread
from typing import Any, TypeVar

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from pipelines.cli.questions import Say
from warehouse import limits
from warehouse.records import StepcastError

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


NDJSON = "application/x-ndjson"
"""Of answers whose lines are `{"progress": …}`, and at last `{"answer": …}` or `{"detail": …}`."""
_ALIVE_S = 10.0
"""A line at least so often, so that nothing between takes the connection for dead."""


async def respond(
    request: Request,
    admission: Admission,
    call: Callable[[Say], str],
    page: Callable[[Say], str] | None = None,
) -> Response:
    """Return the answer of a call, or its progress and answer as lines if that is accepted.

    The call ends when whoever asked closes the connection.

    Args:
        request: which says what is accepted.
        admission: lets the call wait for its turn.
        call: makes the answer in a thread, as JSON; it is given what is told of progress.
        page: makes it as HTML, if that is accepted.
    """
    accepted, kind = request.headers.get("accept", ""), "application/json"
    if page is not None and "text/html" in accepted:
        call, kind = page, "text/html; charset=utf-8"
    elif NDJSON in accepted:
        return StreamingResponse(_lines(admission, call), media_type=NDJSON)
    made = await _while_there(request, admission.run(lambda: call(lambda _: None)))
    return Response(made, media_type=kind)


async def _while_there(request: Request, answer: Coroutine[Any, Any, str]) -> str:
    """Return an answer; who closes the connection cancels it.

    Raises:
        HTTPException: nobody is there any more to be told.
    """

    async def gone() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    answering, leaving = asyncio.ensure_future(answer), asyncio.ensure_future(gone())
    try:
        await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if answering.done():
            return answering.result()
        raise HTTPException(499, "whoever asked has gone")
    finally:
        for each in (answering, leaving):
            each.cancel()


async def _lines(admission: Admission, call: Callable[[Say], str]) -> AsyncIterator[str]:
    loop, told = asyncio.get_running_loop(), asyncio.Queue[str]()

    def say(text: str) -> None:
        loop.call_soon_threadsafe(told.put_nowait, _line("progress", text))

    answering = asyncio.ensure_future(admission.run(lambda: call(say)))
    answering.add_done_callback(lambda _: told.put_nowait(""))
    try:
        yield _line("progress", "asked")
        while True:
            try:
                line = await asyncio.wait_for(told.get(), _ALIVE_S)
            except TimeoutError:
                line = "\n"
            if not line:
                break
            yield line
        yield f'{{"answer":{answering.result()}}}\n'
    except (HTTPException, StepcastError) as error:
        yield _line("detail", error.detail if isinstance(error, HTTPException) else f"{error}")
    except Exception as error:
        getLogger("uvicorn.error").exception("an answer failed")
        yield _line("detail", f"the service failed ({type(error).__name__}); its log says how")
    finally:
        answering.cancel()


def _line(name: str, text: str) -> str:
    return f"{json.dumps({name: text})}\n"
