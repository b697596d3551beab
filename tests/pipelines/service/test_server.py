"""The server: what comes before a token is known has an end, and so has what waits."""

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Event, Thread
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from pipelines.service.app import service
from pipelines.service.checker import Checker
from pipelines.service.collector import Collector
from pipelines.service.contracts import Answer
from pipelines.service.guard import Guard
from pipelines.service.server import Server
from tests.pipelines.service.conftest import Halves
from tests.pipelines.service.test_guard import PERMITTED, TOKEN, Echo
from warehouse import limits

HEADERS = {"Authorization": f"Bearer {TOKEN.decode()}"}


@contextmanager
def serving(app: ASGIApp) -> Iterator[int]:
    """Serve an app at a port while the block lasts."""
    server = Server(app, lambda: None)
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listening:
        thread = Thread(target=server.run, args=([listening],))
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture
def port() -> Iterator[int]:
    """Return the port of an app that answers what it was sent, to who has the token."""
    with serving(Guard(Echo(), TOKEN.decode())) as given:
        yield given


def sent_until_closed(
    port: int, piece: Callable[[int], bytes], pause_s: float
) -> tuple[int, bytes]:
    """Send pieces of a head for at most a minute; return how many bytes, and the answer."""
    sent, until_s = 0, time.monotonic() + 60
    with socket.create_connection(("127.0.0.1", port), timeout=pause_s or 0.001) as client:
        while time.monotonic() < until_s:
            try:
                client.sendall(piece(sent))
                sent += len(piece(sent))
                answer = client.recv(1000)
            except TimeoutError:
                continue
            except OSError:
                return sent, b""
            return sent, answer
    raise AssertionError(f"still open after {sent} bytes")


def test_a_head_has_an_end_in_bytes(port: int) -> None:
    def endless(sent: int) -> bytes:
        return b"X-Endless: " + b"a" * 1000 + b"\r\n" if sent else b"GET / HTTP/1.1\r\n"

    sent, answer = sent_until_closed(port, endless, 0)
    assert limits.REQUEST_HEAD_BYTES < sent < limits.REQUEST_HEAD_BYTES + (1 << 20)
    assert answer[:12] in (b"", b"HTTP/1.1 400")  # the rest is lost where more is still sent


@pytest.mark.parametrize("head", [b"", b"GET / HTTP/1.1\r\nX: ", b"GET "])
def test_a_head_has_an_end_in_seconds(
    port: int, head: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that drip keep no connection open, nor does saying nothing."""
    monkeypatch.setattr(limits, "REQUEST_HEAD_S", 0.5)
    drips = head[:1]
    _, answer = sent_until_closed(port, lambda sent: drips if sent else head, 0.05)
    assert answer == b""


def test_one_connection_asks_again_and_again(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REQUEST_HEAD_S", 0.5)
    asking = HTTPConnection("127.0.0.1", port, timeout=30)
    for number in range(3):
        asking.putrequest("POST", "/")
        asking.putheader(*(part.decode() for part in PERMITTED[0]))
        asking.putheader("Content-Length", "2")
        asking.endheaders()
        time.sleep(0.8)  # a body has another end than a head
        asking.send(b"%02d" % number)
        assert asking.getresponse().read() == b"%02d" % number
        time.sleep(0.3)
    asking.close()


def test_questions_beyond_those_that_can_wait_are_told_when_to_ask_again(
    collector: Collector, checker: Checker
) -> None:
    released = Event()

    class Slow(Halves):
        def answer(self, *given: Any) -> Answer:
            released.wait(60)
            return super().answer(*given)

    question = {
        "workloads": [{"dnn": "vgg11"}],
        "nodes": [{"node_type": "emu.avx2.s15", "count": 1}],
    }
    app = service(Slow(), collector, checker, TOKEN.decode())
    with (
        serving(app) as port,
        httpx.Client(
            base_url=f"http://127.0.0.1:{port}",
            headers=HEADERS,
            trust_env=False,
            timeout=60,
            limits=httpx.Limits(max_connections=200),
        ) as client,
        ThreadPoolExecutor(100) as pool,
    ):

        def ask(_: int) -> httpx.Response:
            answer = client.post("/v1/forecasts", json=question)
            if answer.status_code == 503:
                refused.append(answer)
                if len(refused) == 100 - limits.QUESTIONS:
                    released.set()
            return answer

        refused: list[httpx.Response] = []
        answers = list(pool.map(ask, range(100)))
        assert len(refused) == 100 - limits.QUESTIONS
        assert {answer.status_code for answer in answers} == {200, 503}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert f"{limits.QUESTIONS} questions are answered or wait" in refused[0].json()["detail"]
        assert client.post("/v1/forecasts", json=question).status_code == 200
