"""Requests end: in bytes, in seconds, and before they are read where the token is missing."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from http.client import HTTPConnection
from threading import Thread
from typing import Any

import pytest
import uvicorn
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from pipelines.service.guard import DISCARDED_BYTES, Guard

TOKEN = b"a-token-of-tests"
Headers = list[tuple[bytes, bytes]]
PERMITTED = [(b"authorization", b"Bearer " + TOKEN)]


class Echo:
    """An app that answers what it was sent."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer (ASGI)."""
        message = await receive()
        assert not message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": message["body"]})
        assert (await receive())["type"] == "http.disconnect"


def answered(
    receive: Callable[[], Awaitable[Message]], headers: Headers, **limits: Any
) -> tuple[int, bytes]:
    """Return the status and body that a guarded app answers."""
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    guard = Guard(Echo(), TOKEN.decode(), **limits)
    scope = {"type": "http", "path": "/v1/forecasts", "headers": headers}
    asyncio.run(guard(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def saying(*parts: bytes) -> Callable[[], Awaitable[Message]]:
    """Return what receives a body in parts."""

    def messages() -> Iterator[Message]:
        for place, part in enumerate(parts):
            more = place + 1 < len(parts)
            yield {"type": "http.request", "body": part, "more_body": more}
        yield {"type": "http.disconnect"}

    coming = messages()

    async def receive() -> Message:
        return next(coming)

    return receive


@given(st.lists(st.binary(max_size=5), min_size=1, max_size=5))
def test_a_body_arrives_whole(parts: list[bytes]) -> None:
    whole = b"".join(parts)
    assert answered(saying(*parts), PERMITTED, most_bytes=25) == (200, whole)


def test_a_body_may_have_so_many_bytes() -> None:
    assert answered(saying(b"12", b"34"), PERMITTED, most_bytes=4) == (200, b"1234")
    code, body = answered(saying(b"12", b"345", b"never read"), PERMITTED, most_bytes=4)
    assert (code, body) == (413, b'{"detail":"expected a request of at most 4 bytes"}')


async def unread() -> Message:
    """Fail: nobody should read this body."""
    raise AssertionError("the body was read")


async def next_message(receive: Receive) -> Message:
    """Return what a client says next."""
    return await receive()


@pytest.mark.parametrize("length", [b"%d" % (DISCARDED_BYTES + 1), b"9" * 5000])
def test_a_body_that_says_it_is_far_too_large_is_not_read(length: bytes) -> None:
    headers = [*PERMITTED, (b"content-length", length)]
    assert answered(unread, headers, most_bytes=4)[0] == 413


def test_a_body_that_is_too_large_is_read_to_its_end_and_no_further() -> None:
    headers = [*PERMITTED, (b"content-length", b"6")]
    for given_headers in (headers, PERMITTED):
        receive = saying(b"12", b"345", b"6")
        assert answered(receive, given_headers, most_bytes=4)[0] == 413
        assert asyncio.run(next_message(receive))["type"] == "http.disconnect"
    assert answered(saying(b"12345"), PERMITTED, most_bytes=4)[0] == 413


def test_a_body_that_is_too_large_and_endless_is_given_up() -> None:
    async def endless() -> Message:
        return {"type": "http.request", "body": bytes(2**20), "more_body": True}

    assert answered(endless, PERMITTED)[0] == 413


def test_who_sends_nine_mebibytes_gets_the_answer() -> None:
    config = uvicorn.Config(Guard(Echo(), TOKEN.decode()), port=0, log_level="error")
    server = uvicorn.Server(config)
    listening = socket.create_server(("127.0.0.1", 0))
    thread = Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        asking = HTTPConnection("127.0.0.1", listening.getsockname()[1], timeout=30)
        asking.request("POST", "/", bytes(9 << 20), {"Authorization": f"Bearer {TOKEN.decode()}"})
        assert asking.getresponse().status == 413
        asking.close()
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def test_a_body_without_a_token_is_not_read() -> None:
    assert answered(unread, [])[0] == 401
    assert answered(unread, [(b"authorization", b"Bearer " + TOKEN[:-1])])[0] == 401


def test_a_body_that_does_not_come_is_given_up() -> None:
    async def never() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    code, body = answered(never, PERMITTED, most_s=0.01)
    assert (code, body) == (408, b'{"detail":"expected a whole request within 0.01 s"}')


def test_who_has_gone_gets_no_answer() -> None:
    with pytest.raises(IndexError):
        answered(saying(), PERMITTED)
