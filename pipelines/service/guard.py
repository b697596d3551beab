"""What a request has to pass before it is read: a token, and an end to its bytes and seconds."""

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from contextlib import suppress

from fastapi.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from reports.html import ASK_FILES
from warehouse import limits

STATIC = "/docs-static"
"""Where the scripts of /docs are."""
FILES = "/files"
"""Where the style and the scripts of the page are."""
OPEN = (
    "/",
    *(f"{FILES}/{name}" for name in ASK_FILES),
    "/docs",
    "/docs/oauth2-redirect",
    "/openapi.json",
    *(f"{STATIC}/{name}" for name in ("swagger-ui-bundle.js", "swagger-ui.css", "favicon.png")),
)
"""The page, and what describes the service, to everybody."""
RETURN_S = 30
"""When a service that ends may be back: whoever ends it may start it again."""
DISCARDED_BYTES = 2**26
"""How much of a body that is too large is read, so that its sender gets the answer."""


def problem(code: int, text: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return an answer that says in one line why there is no other."""
    # What somebody sent may hold halves of surrogate pairs, which are no UTF-8.
    detail = " ".join(text.encode(errors="backslashreplace").decode().split())
    return JSONResponse({"detail": detail}, code, headers)


class Guard:
    """Refuses requests without the token, too large ones, and those that take too long to arrive.

    Args:
        app: what answers the others.
        token: what requests have to carry; None: nothing.
        most_bytes: of a request.
        most_s: that it may take to arrive.
    """

    def __init__(
        self,
        app: ASGIApp,
        token: str | None,
        most_bytes: int = limits.REQUEST_BYTES,
        most_s: float = limits.REQUEST_S,
    ) -> None:
        self._app, self._token = app, token
        self._most_bytes, self._most_s = most_bytes, most_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or let the app answer (ASGI)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._answer(scope, receive, sending)
        except asyncio.CancelledError:  # the server ends, and has waited as long as it does
            if has_begun:
                raise
            detail = "the service ends before it could answer; ask it again when it is back"
            headers = {"Connection": "close", "Retry-After": f"{RETURN_S}"}
            await problem(503, detail, headers)(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not (scope["path"] in OPEN or self._is_permitted(scope["headers"])):
            detail = "send the service's token in a header: `Authorization: Bearer TOKEN`"
            refusal = problem(401, detail, {"WWW-Authenticate": "Bearer"})
            await refusal(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self._most_s):
                body = await self._read(scope["headers"], receive)
        except TimeoutError:
            detail = f"expected a whole request within {self._most_s:g} s"
            await problem(408, detail, {"Connection": "close"})(scope, receive, send)
            return
        except _TooLargeError as error:
            if error.more_comes:
                await self._discard(receive)
            detail = f"expected a request of at most {self._most_bytes:,} bytes"
            await problem(413, detail, {"Connection": "close"})(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replaying(body, receive), send)

    def _is_permitted(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        if self._token is None:
            return True
        given = next((value for name, value in headers if name == b"authorization"), b"")
        scheme, _, token = given.partition(b" ")
        is_ours = secrets.compare_digest(token.strip(), self._token.encode())
        return scheme.lower() == b"bearer" and is_ours

    async def _read(self, headers: Iterable[tuple[bytes, bytes]], receive: Receive) -> bytes | None:
        """Return a request's body; None: who asked has gone."""
        announced = next((value for name, value in headers if name == b"content-length"), b"")
        if announced.isdigit() and int(announced[:20]) > self._most_bytes:
            raise _TooLargeError(more_comes=int(announced[:20]) <= DISCARDED_BYTES)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return None
            body += message.get("body", b"")
            more_comes = message.get("more_body", False)
            if len(body) > self._most_bytes:
                raise _TooLargeError(more_comes)
            if not more_comes:
                return bytes(body)

    async def _discard(self, receive: Receive) -> None:
        """Read what still comes of a body, and keep none of it.

        Who is still sending when a connection closes learns of a reset, not of the answer.
        """
        discarded_bytes = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(self._most_s):
                while discarded_bytes <= DISCARDED_BYTES:
                    message = await receive()
                    discarded_bytes += len(message.get("body", b""))
                    if not message.get("more_body", False):
                        return


class _TooLargeError(Exception):
    def __init__(self, more_comes: bool) -> None:
        super().__init__()
        self.more_comes = more_comes


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return what tells a body that was read, then whatever comes next."""
    is_replayed = False

    async def replay() -> Message:
        nonlocal is_replayed
        if is_replayed:
            return await receive()
        is_replayed = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
