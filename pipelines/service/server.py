"""The server under the service: uvicorn, where heads of requests have an end in bytes and seconds.

Uvicorn bounds neither before a request is whole, so before anybody has seen a token.
"""

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from warehouse import limits

ENDING_S = 5
"""How long a service that ends waits for what it answers; then these requests get a 503."""
_TURNS = 20
"""Of the loop, in which what was sent is heard: accepting, reading and beginning take some each."""


class BoundedHeads(H11Protocol):
    """HTTP/1.1 that closes connections on which a request does not begin in time."""

    _closing: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Take what comes; the time of a head goes on, however many parts it comes in."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._closing is None:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _await_head(self) -> None:
        self._closing = self.loop.call_later(limits.REQUEST_HEAD_S, self.transport.abort)

    def _stop_waiting(self) -> None:
        if self._closing is not None:
            self._closing.cancel()
            self._closing = None


class Server(uvicorn.Server):
    """Serves an app until a signal; `at_end` is called when it comes."""

    def __init__(self, app: ASGIApp, at_end: Callable[[], None]) -> None:
        self._at_end = at_end
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedHeads,
                ws="none",
                h11_max_incomplete_event_size=limits.REQUEST_HEAD_BYTES,
                limit_concurrency=limits.REQUEST_CONNECTIONS,
                timeout_graceful_shutdown=ENDING_S,
                log_level="error",
            )
        )

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """End; see `at_end`."""
        self._at_end()
        super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Hear what was sent before the end: uvicorn resets connections that it has not read."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)
        await super().shutdown(sockets)
