"""`stepcast serve` and `serve --join` as users start and end them, in a home that is empty."""

import json
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest

from profilers.steady import hostlock
from tests.pipelines.ran import Started, stepcast

TOKEN = "a-token-of-tests"
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def begun(home: Path, *arguments: str, first: str = "") -> Started:
    """Start the command line; nobody's measurement makes it wait, nor is disturbed for long."""
    lock = f"from profilers.steady import hostlock; hostlock.NAME = '\\0{home}'"
    return Started(home, *arguments, first=f"{first}\n{lock}", STEPCAST_TOKEN=TOKEN)


@pytest.fixture
def started(home: Path) -> Iterator[Started]:
    """Return a service of an empty home, at a free port."""
    service = begun(home, "serve", "--port", "0")
    yield service
    service.process.kill()
    service.process.wait()


def test_it_starts_takes_nodes_and_ends(started: Started, home: Path) -> None:
    url = started.match(
        r"(http://127\.0\.0\.1:\d+)/ is the page, /docs describes the interface; Ctrl-C ends it"
    )
    client = httpx.Client(base_url=url, headers=HEADERS, trust_env=False, timeout=60)
    assert TOKEN not in started.told
    assert client.get("/v1/cluster", headers={"Authorization": ""}).status_code == 401
    question = {"workloads": [{"dnn": "vgg11", "dataset": {"type": "birds"}}]}
    assert "no node has registered" in client.post("/v1/forecasts", json=question).json()["detail"]

    node = begun(home, "serve", "--join", url, "--type", "lab.xeon")
    node.match(r"\S+: (.* GFLOP/s), memory .* registered with")
    (listed,) = client.get("/v1/cluster").json()["nodes"]
    name = listed["name"]
    assert listed["report"]["node_type"] == "lab.xeon"
    assert listed["report"]["dense_flops"] > 1e6
    (forecast,) = client.post("/v1/forecasts", json=question).json()["forecasts"]
    assert forecast["reason"].startswith("no embedder for datasets of type 'birds'")
    assert node.end(signal.SIGINT) == (130, f"stepcast: {name} has left {url}")
    assert client.get("/v1/cluster").json()["nodes"] == []

    refused = stepcast("serve", "--join", url, "--type", "lab.xeon", "--token", "another-token")
    assert "refuses: 401" in refused.refusal
    assert started.end(signal.SIGTERM) == (130, "stepcast: the service has ended")
    gone = stepcast("serve", "--join", url, "--type", "lab.xeon")
    assert f"no service answers at {url}" in gone.refusal


ENDLESS = """
import time
from pipelines.service.engine import Engine
def endless(*_):
    print("it forecasts", file=__import__("sys").stderr, flush=True)
    time.sleep(3600)
Engine.answer = endless
"""


@pytest.mark.exhaustive
def test_a_forecast_that_is_made_holds_up_no_end(home: Path) -> None:
    service = begun(home, "serve", "--port", "0", first=ENDLESS)
    try:
        url = service.match(r"(http://127\.0\.0\.1:\d+)/ is the page")
        question = {
            "workloads": [{"dnn": "vgg11"}],
            "nodes": [{"node_type": "emu.avx2.s15", "count": 1}],
        }

        def ask() -> None:
            with suppress(httpx.HTTPError):
                httpx.post(f"{url}/v1/forecasts", json=question, headers=HEADERS, timeout=120)

        with ThreadPoolExecutor(1) as pool:
            pool.submit(ask)
            service.match("(it forecasts)")
            code, _ = service.end(signal.SIGTERM)
        assert (code, service.told.splitlines()[-1]) == (130, "stepcast: the service has ended")
    finally:
        service.process.kill()
        service.process.wait()


SLOW = """
import time
from pipelines.service.contracts import Answer, Forecast
from pipelines.service.engine import Engine
def slow(self, workloads, nodes, begun):
    print("it forecasts", file=__import__("sys").stderr, flush=True)
    time.sleep(1)
    made = [Forecast(status="forecast", step_time_s=1.0) for _ in workloads]
    return Answer(forecasts=made, nodes={}, devices_per_node=1)
Engine.answer = slow
"""


def test_what_is_asked_when_it_ends_is_answered_or_told_to_ask_again(home: Path) -> None:
    service = begun(home, "serve", "--port", "0", first=SLOW)
    try:
        url = service.match(r"(http://127\.0\.0\.1:\d+)/ is the page")
        port = int(url.rpartition(":")[2])
        question = {
            "workloads": [{"dnn": "vgg11"}],
            "nodes": [{"node_type": "emu.avx2.s15", "count": 1}],
        }
        asked = [HTTPConnection("127.0.0.1", port, timeout=60) for _ in range(30)]
        with socket.create_connection(("127.0.0.1", port)) as half:
            half.sendall(
                b"POST /v1/forecasts HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n"
                b"Authorization: Bearer " + TOKEN.encode() + b"\r\n\r\n{"
            )
            for connection in asked:
                headers = HEADERS | {"Content-Type": "application/json"}
                connection.request("POST", "/v1/forecasts", json.dumps(question), headers)
            service.match("(it forecasts)")
            # Connections are taken in their order: what is answered later, all are taken.
            page = HTTPConnection("127.0.0.1", port, timeout=60)
            page.request("GET", "/")
            assert page.getresponse().status == 200
            code, last = service.end(signal.SIGTERM)
            answers = [connection.getresponse() for connection in asked]
            assert half.recv(100).startswith(b"HTTP/1.1 503 ")
        assert (code, last) == (130, "stepcast: the service has ended")
        assert {200, 503} == {answer.status for answer in answers}
        told = [answer.headers["Retry-After"] for answer in answers if answer.status == 503]
        assert all(int(again_s) > 0 for again_s in told)
        assert "Traceback" not in service.told
    finally:
        service.process.kill()
        service.process.wait()


@pytest.mark.parametrize("token", ["a-secret\rof-mine", "a-secret-ключ", "a-secret of-mine"])
def test_a_token_that_nobody_can_send_is_refused_and_not_told(token: str) -> None:
    refused = stepcast("serve", "--join", "http://127.0.0.1:1", "--type", "a", "--token", token)
    assert "expected a token of 8 to 200" in refused.refusal and "secret" not in refused.refusal


def test_what_cannot_be_served_is_refused_in_one_line(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("STEPCAST_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, message in (
            (["--port", port], f"cannot listen to 127.0.0.1:{port}"),
            (["--address", "192.0.2.1", "--port", "0"], "cannot listen to 192.0.2.1:0"),
            (["--token", "short"], "expected a token of 8 to 200"),
            (["--token", "with blanks in it"], "expected a token of 8 to 200"),
            (["--token", TOKEN, "--no-token"], "--no-token lets anybody ask, and there is a token"),
            (["--datasets", str(home / "none")], "no such folder"),
        ):
            answer = stepcast("serve", *arguments)
            assert answer.code == 2
            assert message in answer.err and answer.err.count("\n") == 1


def test_a_new_token_is_told_once_and_differs(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STEPCAST_TOKEN", raising=False)
    monkeypatch.setattr("uvicorn.Server.run", lambda *_: None)
    monkeypatch.setattr(hostlock, "holder", lambda: "")
    tokens = []
    for _ in range(2):
        answer = stepcast("serve", "--port", "0")
        assert answer.code == 130
        tokens += re.findall(r"^token: (\S{32})$", answer.err, re.MULTILINE)
    assert len(set(tokens)) == 2
    assert "token" not in stepcast("serve", "--port", "0", "--no-token").err
