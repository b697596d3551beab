"""Answers that take long: progress as lines of JSON, and an end when whoever asked has gone."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from logging import getLogger
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.exceptions import HTTPException

from pipelines.cli.questions import Say
from pipelines.service.admission import Admission
from warehouse.records import BadInput, StepcastError

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
    except (BadInput, HTTPException, StepcastError) as error:
        yield _line("detail", error.detail if isinstance(error, HTTPException) else f"{error}")
    except Exception as error:
        getLogger("uvicorn.error").exception("an answer failed")
        yield _line("detail", f"the service failed ({type(error).__name__}); its log says how")
    finally:
        answering.cancel()


def _line(name: str, text: str) -> str:
    return f"{json.dumps({name: text})}\n"
